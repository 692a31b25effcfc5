/* The atomic types that installed headers show, under one name in C and in C++.  With gcc and clang
   both languages give them the same size and alignment. */
#ifndef MR_BASE_ATOMIC_H
#define MR_BASE_ATOMIC_H

#include <stdint.h>

#ifdef __cplusplus
#include <atomic>
typedef std::atomic<int> mr_atomic_int_t;
typedef std::atomic<int64_t> mr_atomic_i64_t;
#else
#include <stdatomic.h>
typedef atomic_int mr_atomic_int_t;
typedef _Atomic int64_t mr_atomic_i64_t;
#endif

#endif
