#include "src/simulate/free_blocks.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <tuple>

namespace memmodel {
namespace {

// Against std::set, the container that torch uses.
TEST_CASE("the order is that of (size, address)") {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    std::mt19937_64 random(seed);
    std::vector<Block> blocks(3000);
    FreeBlocks free(&blocks);
    std::set<std::tuple<Bytes, std::uint64_t, BlockIndex>> expected;
    const Bytes few_sizes[] = {512, 1024, 65536, 66048, 20 * kMiB};
    for (BlockIndex i = 0; i < blocks.size(); ++i) {
      blocks[i].address = random() % 1000000 * 512 + i;
      blocks[i].size = seed % 2 == 1 ? few_sizes[random() % 5]
                                     : static_cast<Bytes>((random() >> (random() % 40 + 20)) + 1) * 512;
    }
    std::vector<bool> in(blocks.size());
    for (int step = 0; step < 20000; ++step) {
      const auto i = static_cast<BlockIndex>(random() % blocks.size());
      const std::tuple key{blocks[i].size, blocks[i].address, i};
      if (in[i]) {
        free.Erase(i);
        expected.erase(key);
      } else {
        free.Insert(i);
        expected.insert(key);
      }
      in[i] = !in[i];
      const Bytes wanted = blocks[random() % blocks.size()].size + static_cast<Bytes>(random() % 3) - 1;
      const auto it = expected.lower_bound({wanted, 0, 0});
      REQUIRE(free.LowerBound(std::max<Bytes>(wanted, 1)) ==
              (it == expected.end() ? kNoBlock : std::get<2>(*it)));
    }
    BlockIndex at = free.First();
    for (const auto& [size, address, index] : expected) {
      REQUIRE(at == index);
      at = free.Next(at);
    }
    CHECK(at == kNoBlock);
  }
}

}  // namespace
}  // namespace memmodel
