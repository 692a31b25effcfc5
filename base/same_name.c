/* Characters are taken apart one after the other, by Unicode's pairs and Hangul's rule.  Marks keep
   their order, which both forms have in common. */
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

enum {
  PARTS = 8,            /* of a character; Unicode's have at most four */
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
  uint32_t part[PARTS];
  int n;
} parts_t;

static int compare_whole(const void *key, const void *row) {
  uint32_t code = *(const uint32_t *)key, whole = ((const struct apart *)row)->whole;
  return code < whole ? -1 : code > whole;
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
         (a = bsearch(&code, apart, sizeof apart / sizeof *apart, sizeof *apart, compare_whole)))
    p->part[p->n++] = a->second, code = a->first;
  p->part[p->n++] = code;
}

/* The next part; 0 at the end. */
static uint32_t next_part(parts_t *p) {
  uint32_t code;
  if (p->n) return p->part[--p->n];
  if (!*p->at) return 0;
  size_t n = mr_utf8_character(p->at, &code);
  if (code == UINT32_MAX) code = NO_UTF8 | (uint8_t)*p->at;
  p->at += n;
  if (code < 0x80) return code;
  push_parts(p, code);
  return p->part[--p->n];
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
