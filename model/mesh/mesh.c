/* Meshes from text, and ranks as digits.  What is refused says how many ranks there are and which
   mesh would fit them. */
#include "model/mesh/mesh.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int mr_mesh_axis(const mr_mesh_t *m, const char *name, size_t n) {
  for (int i = 0; i < m->n; i++)
    if (strlen(m->name[i]) == n && !memcmp(m->name[i], name, n)) return i;
  return -1;
}

int mr_mesh_ranks(const mr_mesh_t *m) {
  int ranks = 1;
  for (int i = 0; i < m->n; i++) ranks *= m->size[i];
  return ranks;
}

int mr_mesh_batch(const mr_mesh_t *m) {
  int data = mr_mesh_axis(m, "data", 4), batch = mr_mesh_axis(m, "batch", 5);
  return data >= 0 ? data : batch >= 0 ? batch : 0;
}

const char *mr_mesh_text(const mr_mesh_t *m, char *out) {
  size_t at = 0;
  *out = 0;
  for (int i = 0; i < m->n; i++)
    at += (size_t)snprintf(out + at, MR_MESH_TEXT - at, "%s%s=%d", i ? "," : "", m->name[i],
                           m->size[i]);
  return out;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_axis_name(const char *name, size_t n) {
  if (!n || n >= MR_AXIS_NAME || !is_letter(*name)) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_letter(name[i]) && !is_digit(name[i]) && name[i] != '-') return false;
  return n != 4 || (memcmp(name, "None", 4) && memcmp(name, "null", 4));
}

static mr_err_t mesh_fails(const char *text, const char *what, size_t n, const char *want,
                           mr_diag_t *diag) {
  return mr_fail(diag, MR_ERR_CONFIG,
                 "mesh \"%.120s\": \"%.*s\": expected %s, as in data=4,model=2", text,
                 n > 60 ? 60 : (int)n, what, want);
}

/* Parses NAME=SIZE in word[0,n), white space around its parts aside. */
static mr_err_t parse_axis(const char *text, const char *word, size_t n, mr_mesh_t *m,
                           mr_diag_t *diag) {
  const char *equals = memchr(word, '=', n), *end = word + n, *name_end, *digit;
  while (word < end && (*word == ' ' || *word == '\t')) word++;
  while (end > word && (end[-1] == ' ' || end[-1] == '\t')) end--;
  n = (size_t)(end - word);
  if (!equals) return mesh_fails(text, word, n, "NAME=SIZE", diag);
  name_end = equals;
  while (name_end > word && name_end[-1] == ' ') name_end--;
  if (name_end < word || !is_axis_name(word, (size_t)(name_end - word)))
    return mesh_fails(text, word, n, "a name of letters, digits, _ and - of at most 31 bytes",
                      diag);
  if (mr_mesh_axis(m, word, (size_t)(name_end - word)) >= 0)
    return mesh_fails(text, word, n, "each axis once", diag);
  if (m->n == MR_MESH_AXES) return mesh_fails(text, word, n, "at most 8 axes", diag);
  digit = equals + 1;
  while (digit < end && *digit == ' ') digit++;
  long long size = 0;
  const char *first = digit;
  for (; digit < end && is_digit(*digit) && size <= MR_MESH_RANKS; digit++)
    size = 10 * size + (*digit - '0');
  if (digit == first || digit < end || size < 1 || size * mr_mesh_ranks(m) > MR_MESH_RANKS)
    return mesh_fails(text, word, n, "sizes from 1 whose product is at most 1048576", diag);
  memcpy(m->name[m->n], word, (size_t)(name_end - word));
  m->size[m->n++] = (int)size;
  return MR_OK;
}

/* The mesh has another number of places than the job has ranks: proposes the same mesh with as many
   along the axis of batches as fit, or that axis alone. */
static mr_err_t mesh_does_not_fit(const char *text, int ranks, const mr_mesh_t *m,
                                  mr_diag_t *diag) {
  char fits[MR_MESH_TEXT];
  mr_mesh_t other = *m;
  int batch = mr_mesh_batch(m), has = mr_mesh_ranks(m), rest = has / m->size[batch];
  if (ranks % rest) {
    if (batch) memcpy(other.name[0], m->name[batch], sizeof m->name[0]);
    other.n = rest = 1, batch = 0;
  }
  other.size[batch] = ranks / rest;
  return mr_fail(diag, MR_ERR_CONFIG,
                 "mesh \"%.120s\" has %d places, but the job has %d rank%s: expected sizes whose "
                 "product is %d, such as %s",
                 text, has, ranks, ranks == 1 ? "" : "s", ranks, mr_mesh_text(&other, fits));
}

mr_err_t mr_mesh_parse(const char *text, int ranks, mr_mesh_t *m, mr_diag_t *diag) {
  char usual[MR_AXIS_NAME];
  memset(m, 0, sizeof *m);
  if (ranks < 0 || ranks > MR_MESH_RANKS)
    return mr_fail(diag, MR_ERR_CONFIG, "mesh: a job of %d ranks: expected at most %d", ranks,
                   MR_MESH_RANKS);
  snprintf(usual, sizeof usual, "data=%d", ranks ? ranks : 1);
  if (!text || !*text) text = usual;
  for (const char *word = text;; word++) {
    size_t n = strcspn(word, ",");
    MR_TRY(parse_axis(text, word, n, m, diag));
    word += n;
    if (!*word) break;
  }
  return !ranks || mr_mesh_ranks(m) == ranks ? MR_OK : mesh_does_not_fit(text, ranks, m, diag);
}

void mr_mesh_place(const mr_mesh_t *m, int rank, int *at) {
  for (int i = m->n - 1; i >= 0; i--) at[i] = rank % m->size[i], rank /= m->size[i];
}

int mr_mesh_rank(const mr_mesh_t *m, const int *at) {
  int rank = 0;
  for (int i = 0; i < m->n; i++) rank = rank * m->size[i] + at[i];
  return rank;
}

int mr_mesh_group(const mr_mesh_t *m, int axis, int rank, int *group, int *own) {
  int at[MR_MESH_AXES];
  mr_mesh_place(m, rank, at);
  if (own) *own = at[axis];
  for (at[axis] = 0; at[axis] < m->size[axis]; at[axis]++) group[at[axis]] = mr_mesh_rank(m, at);
  return m->size[axis];
}
