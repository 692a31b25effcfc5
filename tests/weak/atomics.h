/* Is included before a file of pipeline/ that the stress tester runs: its atomic operations, futex
   calls and pauses become calls of weak.h. */
#ifndef MR_TESTS_WEAK_ATOMICS_H
#define MR_TESTS_WEAK_ATOMICS_H

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/weak/weak.h"

#define WEAK_T(p) __typeof__(((void)0, *(p))) /* without _Atomic */
#define WEAK_BITS(p, v)                     \
  ({                                        \
    WEAK_T(p) value_ = (v);                 \
    uint64_t bits_ = 0;                     \
    memcpy(&bits_, &value_, sizeof value_); \
    bits_;                                  \
  })
#define WEAK_VALUE(p, call)                 \
  ({                                        \
    uint64_t bits_ = (call);                \
    WEAK_T(p) value_;                       \
    memcpy(&value_, &bits_, sizeof value_); \
    value_;                                 \
  })

#undef atomic_init
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_thread_fence
#define atomic_init(p, v) weak_init((p), sizeof *(p), WEAK_BITS(p, v))
#define atomic_load_explicit(p, o) WEAK_VALUE(p, weak_load((p), sizeof *(p), (o)))
#define atomic_store_explicit(p, v, o) weak_store((p), sizeof *(p), WEAK_BITS(p, v), (o))
#define atomic_exchange_explicit(p, v, o) \
  WEAK_VALUE(p, weak_rmw((p), sizeof *(p), WEAK_SWAP, WEAK_BITS(p, v), (o)))
#define atomic_fetch_add_explicit(p, v, o) \
  WEAK_VALUE(p, weak_rmw((p), sizeof *(p), WEAK_ADD, (uint64_t)(v), (o)))
#define atomic_fetch_sub_explicit(p, v, o) \
  WEAK_VALUE(p, weak_rmw((p), sizeof *(p), WEAK_ADD, -(uint64_t)(v), (o)))
#define atomic_fetch_or_explicit(p, v, o) \
  WEAK_VALUE(p, weak_rmw((p), sizeof *(p), WEAK_OR, (uint64_t)(v), (o)))
#define atomic_compare_exchange_weak_explicit(p, e, v, o, f) \
  weak_cas((p), sizeof *(p), (e), WEAK_BITS(p, v), (o), (f))
#define atomic_compare_exchange_strong_explicit atomic_compare_exchange_weak_explicit
#define atomic_thread_fence(o) weak_fence(o)

/* The forms without an order are seq_cst. */
#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_sub
#undef atomic_fetch_or
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v) atomic_exchange_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add(p, v) atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub(p, v) atomic_fetch_sub_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_or(p, v) atomic_fetch_or_explicit(p, v, memory_order_seq_cst)
#define atomic_compare_exchange_weak(p, e, v) \
  atomic_compare_exchange_weak_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_strong(p, e, v) \
  atomic_compare_exchange_weak_explicit(p, e, v, memory_order_seq_cst, memory_order_seq_cst)

/* To see what the tester finds in orders that are too weak. */
#ifdef WEAK_SEQ_CST
#define memory_order_seq_cst WEAK_SEQ_CST
#endif

#define syscall(number, word, op, value, ...) \
  weak_futex((word), (op), (value), WEAK_FIRST(__VA_ARGS__))
#define WEAK_FIRST(a, ...) (a)
#define sched_yield() weak_yield()
#define pthread_create(thread, attr, f, arg) (weak_start((f), (arg)), 0)
#define pthread_join(thread, result) \
  ((void)(thread), 0) /* before() is left first, after() comes last */
#define pthread_setname_np(thread, name) ((void)(name))
#define pthread_mutex_lock(m) weak_lock(m)
#define pthread_mutex_unlock(m) weak_unlock(m)
#define pthread_cond_wait(c, m) \
  (weak_unlock(m), weak_yield(), weak_lock(m)) /* woken for no reason */
#define mr_cond_wait_until(c, m, until_ns) pthread_cond_wait(c, m)
#define pthread_cond_signal(c) ((void)(c))
#define pthread_cond_broadcast(c) ((void)(c))

#endif
