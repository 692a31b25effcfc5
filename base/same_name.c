/* Characters are taken apart by Unicode's table and Hangul's rule, and the marks behind a letter
   are put into the order of their classes (The Unicode Standard, D108 and D109): NFD, one run of
   marks after the other.  A mark of class 0 begins a run, so that a run ends where another order
   would be another text. */
#include "base/same_name.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct apart {
  uint32_t whole, first, second;
} apart[] = {
#include "base/decomposed.inc"
};

static const struct combining {
  uint32_t first, last;
  uint8_t order; /* the canonical combining class */
} combining[] = {
#include "base/combining.inc"
};

enum {
  PARTS = 8, /* of a character; Unicode's have at most four */
  RUN = 64,  /* marks that are ordered together; Unicode's safe streams have at most 30 */
  NO_UTF8 = 0x40000000, /* with the byte */
  SYLLABLE = 0xAC00,    /* Hangul: first syllable, and how many there are */
  SYLLABLES = 11172,
  LEADING = 0x1100,
  VOWEL = 0x1161,
  TRAILING = 0x11A7,
  N_VOWELS = 21,
  N_TRAILING = 28
};

/* The parts of the characters of a text, one after the other. */
typedef struct parts {
  const char *at;
  uint32_t part[PARTS]; /* of a character, the next one on top */
  int n;
  uint32_t run[RUN]; /* a letter and its marks, or marks alone, in their order */
  uint8_t order[RUN];
  int n_run, next;
} parts_t;

static int compare_whole(const void *key, const void *row) {
  uint32_t code = *(const uint32_t *)key, whole = ((const struct apart *)row)->whole;
  return code < whole ? -1 : code > whole;
}

static int compare_mark(const void *key, const void *row) {
  uint32_t code = *(const uint32_t *)key;
  const struct combining *c = row;
  return code < c->first ? -1 : code > c->last;
}

/* The canonical combining class. */
static uint8_t order_of(uint32_t code) {
  if (code < combining->first) return 0;
  const struct combining *c = bsearch(&code, combining, sizeof combining / sizeof *combining,
                                      sizeof *combining, compare_mark);
  return c ? c->order : 0;
}

/* Puts a character's parts on the stack, the first one on top. */
static void push_parts(parts_t *p, uint32_t code) {
  uint32_t s = code - SYLLABLE;
  if (s < SYLLABLES) {
    uint32_t trailing = s % N_TRAILING;
    if (trailing) p->part[p->n++] = TRAILING + trailing;
    p->part[p->n++] = VOWEL + s / N_TRAILING % N_VOWELS;
    p->part[p->n++] = LEADING + s / N_TRAILING / N_VOWELS;
    return;
  }
  const struct apart *a;
  while (p->n < PARTS - 1 &&
         (a = bsearch(&code, apart, sizeof apart / sizeof *apart, sizeof *apart, compare_whole))) {
    if (a->second) p->part[p->n++] = a->second;
    code = a->first;
  }
  p->part[p->n++] = code;
}

/* The next part as the text has it, which stays; 0 at the end. */
static uint32_t peek_part(parts_t *p) {
  uint32_t code;
  if (p->n) return p->part[p->n - 1];
  if (!*p->at) return 0;
  size_t n = mr_utf8_character(p->at, &code);
  if (code == UINT32_MAX) code = NO_UTF8 | (uint8_t)*p->at;
  p->at += n;
  if (code < 0x80)
    p->part[p->n++] = code;
  else
    push_parts(p, code);
  return p->part[p->n - 1];
}

/* Adds a part before those of a higher class, behind those of its own. */
static void add_in_order(parts_t *p, uint32_t code, uint8_t order) {
  int at = p->n_run++;
  for (; order && at && p->order[at - 1] > order; at--)
    p->run[at] = p->run[at - 1], p->order[at] = p->order[at - 1];
  p->run[at] = code, p->order[at] = order;
}

/* Takes a part and the marks behind it.  Both of two equal texts cut a longer run alike where its
   marks have one order. */
static void read_run(parts_t *p) {
  uint32_t code = peek_part(p);
  p->n_run = p->next = 0;
  for (uint8_t order = code ? order_of(code) : 0; code;) {
    add_in_order(p, code, order);
    p->n--;
    code = peek_part(p);
    if (!code || !(order = order_of(code)) || p->n_run == RUN) return;
  }
}

/* The next part in canonical order; 0 at the end. */
static uint32_t next_part(parts_t *p) {
  if (p->next == p->n_run) read_run(p);
  return p->n_run ? p->run[p->next++] : 0;
}

bool mr_same_name(const char *a, const char *b) {
  parts_t one = {.at = a}, other = {.at = b};
  if (!strcmp(a, b)) return true;
  for (;;) {
    uint32_t c = next_part(&one);
    if (c != next_part(&other)) return false;
    if (!c) return true;
  }
}

uint64_t mr_same_name_hash(const char *name) {
  parts_t p = {.at = name};
  uint64_t h = UINT64_C(0xCBF29CE484222325);
  for (uint32_t c; (c = next_part(&p));) h = (h ^ c) * UINT64_C(0x100000001B3);
  return h;
}
