// One statistic of the small pool, the large pool and both together.
#ifndef MEMMODEL_SRC_SIMULATE_COUNTER_H_
#define MEMMODEL_SRC_SIMULATE_COUNTER_H_

#include "memmodel/allocator.h"

namespace memmodel {

// torch keeps current, peak, allocated and freed of each (c10/core/Allocator.h,
// struct Stat). What follows from the rest is worked out when it is asked for,
// so that a request costs few writes.
class Counter {
 public:
  void Increase(bool small, Bytes amount) {
    Part& part = parts_[small ? 1 : 0];
    part.allocated += amount;
    part.current += amount;
    part.peak = part.current > part.peak ? part.current : part.peak;
    current_ += amount;
    peak_ = current_ > peak_ ? current_ : peak_;
  }
  void Decrease(bool small, Bytes amount) {
    parts_[small ? 1 : 0].current -= amount;
    current_ -= amount;
  }
  // By a change of either sign.
  void Add(bool small, Bytes change) {
    if (change > 0) Increase(small, change);
    if (change < 0) Decrease(small, -change);
  }
  void ResetPeak() {
    peak_ = current_;
    for (Part& part : parts_) part.peak = part.current;
  }
  void ResetAccumulated() {
    for (Part& part : parts_) {
      part.allocated = 0;
      part.current_at_reset = part.current;
    }
  }
  [[nodiscard]] PoolStatistic Get() const {
    PoolStatistic s;
    s.large_pool = parts_[0].Get();
    s.small_pool = parts_[1].Get();
    s.all = {current_, peak_, s.large_pool.allocated + s.small_pool.allocated,
             s.large_pool.freed + s.small_pool.freed};
    return s;
  }

 private:
  struct Part {
    Bytes current = 0;
    Bytes peak = 0;
    Bytes allocated = 0;
    Bytes current_at_reset = 0;
    [[nodiscard]] Statistic Get() const {
      return {current, peak, allocated, current_at_reset + allocated - current};
    }
  };
  Part parts_[2];
  Bytes current_ = 0;
  Bytes peak_ = 0;
};

}  // namespace memmodel

#endif  // MEMMODEL_SRC_SIMULATE_COUNTER_H_
