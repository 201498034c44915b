"""Steps and phases: what the script does, told by torch's hooks.

load -> [forward -> backward]* -> optimizer -> (next step). A forward is the
outermost call of a module; a backward is torch.autograd.backward (Tensor.backward
calls it); a step ends with an optimizer's step(). The markers are those of
docs/trace_format.md, so one Trace reads like another.
"""
import sys
import threading

from . import history, modules

LOAD, FORWARD, BACKWARD, AFTER_BACKWARD, OPTIMIZER, NONE = range(6)
_NAMES = {FORWARD: "forward", BACKWARD: "backward", AFTER_BACKWARD: "step", OPTIMIZER: "step"}
MOST_STEPS_REPORTED = 100


class Steps:
    def __init__(self, torch, run):
        self._torch = torch
        self._run = run       # .mark(text), .tag(...), .phase_ended(), .step_done(count), ...
        self.phase = LOAD
        self.batch = None     # the largest of a step that an optimizer ended; until there is one, the last forward's
        self._step_batch = None  # of the last outermost forward
        self.reports = []     # one dict a step, see docs/run.md
        self._counts = {}     # id(optimizer): steps
        self._optimizers = [] # kept, so that no id is used again
        self._depth = 0       # optimizers that step inside another's step (ZeRO, wrappers)
        self._backward_thread = None
        self._tagged = set()  # ids of root modules whose parameters are tagged
        self._names = {}      # id(parameter): name
        self._install()

    @property
    def done(self):
        return max(self._counts.values(), default=0)

    def complete(self, steps):
        """Whether every optimizer has made `steps` steps, or one has made one more."""
        if not self._counts:
            return False
        most, least = max(self._counts.values()), min(self._counts.values())
        return most >= steps and (least >= steps or most > steps)

    def name_of_phase(self):
        return {LOAD: "load", NONE: "none", AFTER_BACKWARD: "optimizer", OPTIMIZER: "optimizer"}.get(
            self.phase) or _NAMES[self.phase]

    def _install(self):
        torch, autograd = self._torch, self._torch.autograd
        from torch.optim import optimizer

        optimizer.register_optimizer_step_pre_hook(self._optimizer_begins)
        optimizer.register_optimizer_step_post_hook(self._optimizer_ended)
        backward = autograd.backward

        def watched(tensors=None, *arguments, **named):
            outermost = self.backward_begins(tensors)
            try:
                result = backward(tensors, *arguments, **named)
            except BaseException:
                if outermost:
                    self._fell()
                raise
            if outermost:
                self.backward_ended()
            return result

        watched.__doc__, watched.__name__ = backward.__doc__, "backward"
        watched.__wrapped__, watched.__module__ = backward, backward.__module__
        autograd.backward = watched
        # The initial gradient of a scalar is made inside; torch.autograd.grad is not
        # a training step's backward (gradient penalties) and stays in its phase.

    # The phases. Each keeps the peaks of the one before it.

    def _enter(self, phase):
        if self._run.live():
            self._keep(self._run.phase_ended())
        self.phase = phase

    def _keep(self, peaks):
        name = _NAMES.get(self.phase)
        if peaks is None or name is None or not self.reports or len(self.reports) > MOST_STEPS_REPORTED:
            return
        kept = self.reports[-1].setdefault(name, {"peak_allocated_bytes": 0})
        kept["peak_allocated_bytes"] = max(kept["peak_allocated_bytes"], peaks["allocated_peak"])
        kept["allocated_bytes"] = peaks["allocated"]
        self.reports[-1]["reserved_bytes"] = peaks["reserved"]

    def forward_begins(self, module, arguments):
        if not self._run.live() or self._inside_backward() or self._torch._C._get_tracing_state():
            return  # (sizes are tensors while torch.jit.trace runs a module)
        tensor = history.first_tensor(self._torch, arguments)
        if tensor is None:
            tensor = history.first_tensor(self._torch, self._run.keyword_arguments())
        if not self._on_gpu(module, tensor):  # torchvision's transforms are modules as well
            return
        if self.phase in (LOAD, NONE):
            if tensor is not None and tensor.dim() > 0:
                self._step_batch = int(tensor.shape[0])
                if not self._counts:
                    self.batch = self._step_batch
            self._begin_step()
        elif self.phase == AFTER_BACKWARD:
            self._run.mark("# micro-batch")
            self._enter(FORWARD)
        if self._run.tagging():
            self._tag_module(module, arguments)

    @staticmethod
    def _on_gpu(module, tensor):
        return (tensor is not None and tensor.is_cuda) or (
            module is not None and any(p.is_cuda for p in module.parameters()))

    def function_begins(self, arguments):
        """An outermost compiled function that is no module's: whether it begins a step."""
        if self.phase not in (LOAD, NONE):
            return False
        self.forward_begins(None, arguments)
        return self.phase == FORWARD

    def _begin_step(self):
        self._run.first_step_begins()
        self._enter(FORWARD)
        self.reports.append({})
        self._run.mark("# step b=%d" % (self._step_batch or 0))

    def forward_ended(self, module, output):
        if not self._run.live() or self._inside_backward() or self.phase != FORWARD:
            return
        if output is None and sys.exc_info()[0] is not None:
            self._fell()
        elif not self._torch.is_grad_enabled():  # an evaluation's pass is a step of its own
            self._enter(NONE)
            self._run.mark("# step done")

    def _fell(self):
        """The step did not end; a script that goes on (with a smaller batch) begins another."""
        self._backward_thread = None
        if self._run.live() and self.phase in (FORWARD, BACKWARD):
            if self.phase == BACKWARD:
                self._run.mark("# backward done")
            self._enter(NONE)
            self._run.mark("# step done")

    def _inside_backward(self):
        return self._backward_thread is not None

    def backward_begins(self, tensors):
        if not self._run.live() or self._inside_backward():
            return False  # a backward inside a backward: checkpointing
        if self.phase in (LOAD, NONE):
            self._begin_step()
        elif self.phase == AFTER_BACKWARD:  # another loss of the same forward
            self._run.mark("# micro-batch")
            self._enter(FORWARD)
        self._run.mark("# forward done")
        if self._run.tagging():
            for tensor in history.tensors(self._torch, tensors):
                self._run.tag("loss", tensor, "loss")
        self._enter(BACKWARD)
        self._backward_thread = threading.get_ident()
        return True

    def backward_ended(self):
        self._backward_thread = None
        if self._run.live() and self.phase == BACKWARD:
            self._run.mark("# backward done")
            self._enter(AFTER_BACKWARD)

    def _optimizer_begins(self, optimizer, arguments, named):
        if self._run.finished():  # the script caught the SystemExit and goes on
            self._run.leave()
        self._depth += 1
        if self._depth > 1 or not self._run.live():
            return None
        replaced = self._with_closure(optimizer, arguments, named)
        if replaced is None:
            self._update_begins(optimizer)
        return replaced

    def _with_closure(self, optimizer, arguments, named):
        """Lightning and LBFGS have forward and backward in a closure that step() calls: the update comes after it.
        The arguments with it followed, or None if there is no closure."""
        given = named.get("closure")
        place = next((i for i, a in enumerate(arguments) if i > 0 and callable(a)), None)
        if given is None and place is None:
            return None
        closure = given if given is not None else arguments[place]

        def followed(*more, **more_named):
            if self.phase == OPTIMIZER:  # LBFGS asks again
                self._enter(AFTER_BACKWARD)
            result = closure(*more, **more_named)
            if self._run.live():
                self._update_begins(optimizer)
            return result

        if given is not None:
            return arguments, dict(named, closure=followed)
        return arguments[:place] + (followed,) + arguments[place + 1:], named

    def _update_begins(self, optimizer):
        if self.phase in (LOAD, NONE):  # gradients that no backward made
            self._begin_step()
        if self.phase != AFTER_BACKWARD and self.phase != BACKWARD:
            self._run.mark("# backward done")
        if self._run.tagging():
            self._tag_gradients(optimizer)
        self._enter(OPTIMIZER)

    def _optimizer_ended(self, optimizer, arguments, named):
        self._depth = max(0, self._depth - 1)
        if self._depth or not self._run.live():
            return
        if self._run.tagging():
            self._tag_state(optimizer)
        self._let_collectives_end()
        self._enter(NONE)
        self._run.mark("# step done")
        if self._step_batch is not None:  # a data set's last batch is smaller, an evaluation's may be any
            self.batch = max(self._step_batch, (self.batch or 0) if self._counts else 0)
        if id(optimizer) not in self._counts:
            self._optimizers.append(optimizer)
        self._counts[id(optimizer)] = self._counts.get(id(optimizer), 0) + 1
        self._run.step_done()

    def _let_collectives_end(self):
        """NCCL's watchdog drops the tensors of finished collectives every 100 ms. A step on a
        real GPU takes longer than that; here it does not, and the next step would find them."""
        distributed = self._torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            return
        for group in list(distributed.distributed_c10d._world.pg_map):
            if hasattr(group, "_wait_for_pending_works"):
                try:
                    group._wait_for_pending_works()
                except Exception:  # a backend without it
                    pass

    # What the blocks hold.

    def _tag_module(self, module, arguments):
        for tensor in history.tensors(self._torch, arguments):
            self._run.tag("input", tensor, "input")
        for tensor in history.tensors(self._torch, self._run.keyword_arguments()):
            self._run.tag("input", tensor, "input")
        if module is None or id(module) in self._tagged:
            return
        self._tagged.add(id(module))
        self._optimizers.append(module)
        for name, parameter in module.named_parameters():
            while name.startswith(modules.WRAPPER_PREFIXES):
                name = name.partition(".")[2]
            self._names[id(parameter)] = name
            self._run.tag("weight", parameter, name)
        for name, buffer in module.named_buffers():
            self._run.tag("buffer", buffer, name)

    def _each(self, optimizer):
        for group in getattr(optimizer, "param_groups", ()):
            for parameter in group.get("params", ()):
                yield parameter, self._names.get(id(parameter), "parameter")

    def _tag_gradients(self, optimizer):
        for parameter, name in self._each(optimizer):
            if parameter.grad is not None:
                self._run.tag("gradient", parameter.grad, name)

    def _tag_state(self, optimizer):
        state = getattr(optimizer, "state", {})
        for parameter, name in self._each(optimizer):
            values = state.get(parameter)
            if isinstance(values, dict):
                for key, value in values.items():
                    if isinstance(value, self._torch.Tensor):
                        self._run.tag("optimizer_state", value, "%s.%s" % (name, key))
