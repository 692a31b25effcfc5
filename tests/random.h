/* Random rounds, each from a seed of its own that a failure names.

     round_t r = round_first(400);
     while (round_next(&r)) { ... draw(&r, 10) ... round_check(&r, a == b, "the %dth", i); }

   MILLRACE_SEED=S begins with seed S, MILLRACE_ROUNDS=N takes N rounds.  A crash, a failed
   assertion of the code under test and a hang (shortly before ctest ends the program) tell the seed
   too. */
#ifndef MR_TESTS_RANDOM_H
#define MR_TESTS_RANDOM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUND_HANGS_S = 570 }; /* ctest's own limit is 600 */

typedef struct round {
  uint64_t seed, end; /* of this round; where the rounds end */
  uint64_t x;         /* state of the generator */
} round_t;

static char round_text[64]; /* "seed 17\n", for a signal handler */

static inline void round_tell(int signo) {
  (void)!write(2, round_text, strlen(round_text));
  signal(signo, SIG_DFL);
  raise(signo);
}

static inline uint64_t round_env(const char *variable, uint64_t otherwise) {
  const char *text = getenv(variable);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

static inline round_t round_first(uint64_t n) {
  uint64_t seed = round_env("MILLRACE_SEED", 1);
  signal(SIGABRT, round_tell), signal(SIGALRM, round_tell);
  alarm(ROUND_HANGS_S);
  n = round_env("MILLRACE_ROUNDS", n);
  printf("%llu rounds from seed %llu on\n", (unsigned long long)n, (unsigned long long)seed);
  fflush(stdout);
  return (round_t){.seed = seed - 1, .end = seed + n};
}

static inline bool round_next(round_t *r) {
  r->x = ++r->seed * 0x9E3779B97F4A7C15u;
  snprintf(round_text, sizeof round_text, "seed %llu\n", (unsigned long long)r->seed);
  return r->seed < r->end;
}

/* Splitmix64.  Another thread of the round takes a generator of its own by round_split. */
static inline uint64_t round_bits(round_t *r) {
  uint64_t z = r->x += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static inline round_t round_split(round_t *r) {
  round_t part = *r;
  part.x = round_bits(r);
  return part;
}

/* A number in [0,n), n > 0. */
static inline int draw(round_t *r, int n) { return (int)(round_bits(r) % (uint64_t)n); }
static inline bool one_in(round_t *r, int n) { return draw(r, n) == 0; }

/* In any thread: names the seed and ends the program, so that nothing more can hide it. */
#define round_check(r, holds, ...)                                          \
  do {                                                                      \
    if (holds) break;                                                       \
    fprintf(stderr, "%s:%d: seed %llu: not true: %s: ", __FILE__, __LINE__, \
            (unsigned long long)(r)->seed, #holds);                         \
    fprintf(stderr, __VA_ARGS__);                                           \
    fprintf(stderr, "\n");                                                  \
    _exit(1);                                                               \
  } while (0)

#endif
