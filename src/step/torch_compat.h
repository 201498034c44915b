// What differs between LibTorch versions, and small helpers around its errors.
// Written against 2.11; checked from 2.9 on by reading.
#ifndef MEMMODEL_SRC_STEP_TORCH_COMPAT_H_
#define MEMMODEL_SRC_STEP_TORCH_COMPAT_H_

#include <exception>
#include <string>

namespace memmodel::step {

// The part of an exception of LibTorch that a user can act on: its own message in
// one line, without C++ or TorchScript back traces.
std::string FirstLine(const std::exception& error);

// Settings that hold for the whole process and are inherited by its probes: one
// thread (a fork copies no others), and a TorchScript interpreter that does what
// eager PyTorch does.
void ConfigureTorch();

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_TORCH_COMPAT_H_
