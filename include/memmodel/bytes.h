// Amounts of memory: the unit, its text form, and parsing.
#ifndef MEMMODEL_BYTES_H_
#define MEMMODEL_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "memmodel/status.h"

namespace memmodel {

using Bytes = std::int64_t;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

// Parses a SIZE: a decimal number with an optional unit. K, M, G, T and KiB,
// MiB, GiB, TiB are powers of 1024 ("24G" and "24GiB" are 24 * 2^30); KB, MB,
// GB, TB are powers of 1000; B or nothing is bytes. Case does not matter.
// Fails on anything else, on negative amounts and on more than 2^62 bytes.
Result<Bytes> ParseBytes(std::string_view text);

// "17.32 GiB", "512 B": four significant digits at most, binary units.
std::string FormatBytes(Bytes bytes);

}  // namespace memmodel

#endif  // MEMMODEL_BYTES_H_
