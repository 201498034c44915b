// One step of a convolution, with segments; sizes are chosen so that every kind but
// temporaries has bytes of its own. browser_test.py reads the same text.
#ifndef MEMMODEL_TESTS_HTML_SAMPLE_TRACE_H_
#define MEMMODEL_TESTS_HTML_SAMPLE_TRACE_H_

namespace memmodel::test {

inline constexpr char kSampleTrace[] = R"(! memmodel-trace 1
= {"batch":4}
o aten::cudnn_convolution
o ConvolutionBackward0
o aten::_foreach_add_
m Net
m Conv2d conv1.<b>&"evil"</script>
# load
S 200000 2097152 0 -1 -1
a 200000 4000 0 -1 -1
t weight 200000 4000 conv1.weight
# step b=4
a 201000 10000 0 -1 -1
t input 201000 10000 input
a 203800 30000 0 0 1
a 20ae00 65000 0 0 1
f 20ae00 65000 0 0 1
c 20ae00 65000 0 0 1
# forward done
a 20ae00 4000 0 1 1
t gradient 20ae00 4000 conv1.weight
a 20be00 20000 0 1 1
f 203800 30000 0 1 1
c 203800 30000 0 1 1
f 20be00 20000 0 1 1
c 20be00 20000 0 1 1
# backward done
a 203800 4096 0 2 -1
t optimizer_state 203800 4096 conv1.weight.momentum_buffer
f 201000 10000 0 -1 -1
c 201000 10000 0 -1 -1
# step done
# end
)";

}  // namespace memmodel::test

#endif  // MEMMODEL_TESTS_HTML_SAMPLE_TRACE_H_
