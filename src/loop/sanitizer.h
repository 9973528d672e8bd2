/* sanitizer.h: tells the sanitizers and valgrind about stack switches; nothing otherwise. */
#ifndef DZ_LOOP_SANITIZER_H
#define DZ_LOOP_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define DZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DZ_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define DZ_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DZ_TSAN 1
#endif
#endif

#ifdef DZ_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef DZ_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define DZ_VALGRIND 1
#endif
#endif

#endif
