/* Lets C++ include an installed header: C linkage for its declarations (MR_BEGIN_DECLS after the
   includes, MR_END_DECLS before the guard's end), lists of numbers as arguments, and atomic types
   under one name.  With gcc and clang both languages give these the same size and alignment. */
#ifndef MR_BASE_DECLS_H
#define MR_BASE_DECLS_H

#include <stdint.h>

/* MR_DIMS(2, 3) expands to the two arguments "count, pointer" of a call that takes int64_t numbers.
   The numbers live at least until the end of the full expression that contains the call. */
#ifdef __cplusplus
#include <atomic>
#include <initializer_list>
#define MR_BEGIN_DECLS extern "C" {
#define MR_END_DECLS }
#define MR_DIMS(...)                                       \
  (int)std::initializer_list<int64_t>{__VA_ARGS__}.size(), \
      std::initializer_list<int64_t>{__VA_ARGS__}.begin()
typedef std::atomic<int> mr_atomic_int_t;
typedef std::atomic<int64_t> mr_atomic_i64_t;
#else
#include <stdatomic.h>
#define MR_BEGIN_DECLS
#define MR_END_DECLS
#define MR_DIMS(...) \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
typedef atomic_int mr_atomic_int_t;
typedef _Atomic int64_t mr_atomic_i64_t;
#endif

#endif
