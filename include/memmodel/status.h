// Errors by value. Nothing in memmodel's public interface throws.
//
// A message says what was asked, what was found and what to do about it; it is
// one line of text that can be shown to a user as it is.
#ifndef MEMMODEL_STATUS_H_
#define MEMMODEL_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace memmodel {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the request itself is wrong: a flag, a size, a name
  kBadInput,         // a file or stream is missing, truncated, hostile or of another kind
  kUnknown,          // something that decides memory could not be determined
  kUnavailable,      // the machine lacks what is needed: a library, a child that died
  kInternal,         // a defect of memmodel
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }
  static Status InvalidArgument(std::string m) {
    return {StatusCode::kInvalidArgument, std::move(m)};
  }
  static Status BadInput(std::string m) { return {StatusCode::kBadInput, std::move(m)}; }
  static Status Unknown(std::string m) { return {StatusCode::kUnknown, std::move(m)}; }
  static Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
  static Status Internal(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

  [[nodiscard]] bool ok() const { return code_ == StatusCode::kOk; }
  [[nodiscard]] StatusCode code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// Either a value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}           // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}   // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }

  // Requires ok().
  [[nodiscard]] const T& value() const& { return *value_; }
  [[nodiscard]] T& value() & { return *value_; }
  [[nodiscard]] T&& value() && { return *std::move(value_); }
  const T& operator*() const& { return *value_; }
  T& operator*() & { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  const T* operator->() const { return &*value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// The process exit codes of the command line. Documented in README.md; tests
// and schedulers hold on to them.
inline constexpr int kExitFits = 0;        // it fits, or the question was answered
inline constexpr int kExitDoesNotFit = 1;  // it does not fit
inline constexpr int kExitBadInput = 2;    // wrong usage or unreadable input
inline constexpr int kExitUnknown = 3;     // something memory-relevant is unknown

[[nodiscard]] inline int ExitCode(const Status& status) {
  if (status.ok()) return kExitFits;
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kBadInput
             ? kExitBadInput
             : kExitUnknown;
}

}  // namespace memmodel

#endif  // MEMMODEL_STATUS_H_
