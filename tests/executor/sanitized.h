// Whether this binary is built with a sanitizer that has its own allocator.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
#define PLIMSOLL_SANITIZED 1
#elif defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLIMSOLL_SANITIZED 1
#endif
#endif
#ifndef PLIMSOLL_SANITIZED
#define PLIMSOLL_SANITIZED 0
#endif

namespace plimsoll::test {

inline constexpr bool kSanitized = PLIMSOLL_SANITIZED != 0;

}  // namespace plimsoll::test
