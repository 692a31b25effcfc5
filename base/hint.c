/* Finds a word in a table of hints, and writes the row's sentence.  Words are compared in lower
   case without dashes, since frameworks differ in both: batch_size, batchSize, batch-size. */
#include "base/hint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORD_BYTES = 64 };

/* Copies word without '-' and '_', in lower case; "" if it is too long to be in a table. */
static void hint_fold(const char *word, char *out) {
  size_t n = 0;
  for (; *word && n < WORD_BYTES - 1; word++)
    if (*word != '-' && *word != '_') out[n++] = (char)tolower((unsigned char)*word);
  out[*word ? 0 : n] = 0;
}

bool mr_hint_has(const char *words, const char *word) {
  char folded[WORD_BYTES];
  hint_fold(word, folded);
  size_t n = strlen(folded);
  if (strpbrk(folded, " \t\n")) return false; /* two words of a row are not a word of it */
  for (const char *at = words; n && at && (at = strstr(at, folded)); at += n)
    if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

const mr_hint_t *mr_hint_find(const mr_hint_t *rows, const char *word) {
  for (; rows && rows->words; rows++)
    if (mr_hint_has(rows->words, word)) return rows;
  return NULL;
}

const char *mr_hint_text(const mr_hint_t *row, const char *usual, char *text, size_t n) {
  const char *why = row->why ? row->why : usual, *write = row->write;
  if (!why) return snprintf(text, n, "; write %s", write), text;
  bool more = write && !strstr(why, write);
  snprintf(text, n, "; %s%s%s", why, more ? ": " : "", more ? write : "");
  return text;
}

/* "amp" and "mixed" are not here: which type they mean differs between frameworks. */
const mr_hint_t mr_dtype_hints[] = {
    {"float32 fp32 single float 32 32true", "f32", NULL},
    {"float16 fp16 half 16 16mixed mixedfloat16 f16mixed", "f16", NULL},
    {"bfloat16 bfloat brainfloat16 bf16mixed mixedbfloat16", "bf16", NULL},
    {"uint8 byte ubyte", "u8", NULL},
    {"uint16 ushort", "u16", NULL},
    {"uint32", "u32", NULL},
    {"int32 int", "i32", NULL},
    {"float8e4m3fn float8e4m3 fp8e4m3", "e4m3", NULL},
    {0}};
