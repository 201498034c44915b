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

// The module in which TorchScript's interpreter failed ("layer1.0.conv1"), read from
// its trace; "" if the exception is not TorchScript's.
std::string ScriptModulePath(const std::exception& error);

}  // namespace memmodel::step

#endif  // MEMMODEL_SRC_STEP_TORCH_COMPAT_H_
