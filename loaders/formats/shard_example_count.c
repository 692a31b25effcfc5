/* Counts the features of Examples into a draft, because fields are settled from the index, before
   any record is read. */
#include <stdlib.h>
#include <string.h>

#include "loaders/formats/shard_example.h"

/* The features of the record being counted: of two with one name the last counts, as it does when
   the record is read. */
struct mr_example_count {
  mr_shard_draft_t *draft;
  int64_t record; /* its number, from 1 */
  int64_t seen[MR_SHARD_COLUMNS_MAX],
      value[MR_SHARD_COLUMNS_MAX];       /* by column: last record, size */
  uint32_t column[MR_SHARD_COLUMNS_MAX]; /* [n_columns] of the record */
  int n_columns;
};

mr_example_count_t *mr_example_count_new(mr_shard_draft_t *draft) {
  mr_example_count_t *c = calloc(1, sizeof *c);
  if (c) c->draft = draft;
  return c;
}

void mr_example_count_free(mr_example_count_t *c) { free(c); }

/* Notes a feature whose name cannot be a column's, by what a column can have of it. */
static mr_err_t note_unnamed(mr_example_count_t *t, const mr_example_feature_t *f,
                             mr_diag_t *diag) {
  char name[201];
  size_t n = f->name_n < sizeof name ? f->name_n : sizeof name - 1;
  uint32_t column;
  for (size_t i = 0; i < n; i++) name[i] = f->name[i] ? f->name[i] : '?';
  mr_shard_draft_widen(t->draft); /* for names beyond the columns that are counted, too */
  mr_err_t e = mr_shard_draft_column(t->draft, name, n, MR_COLUMN_UNNAMED, &column, NULL);
  return e == MR_ERR_NOMEM ? mr_no_memory(diag, "the features of a record") : MR_OK;
}

/* Notes a feature. */
static mr_err_t note_feature(mr_example_count_t *t, const mr_example_feature_t *f,
                             mr_diag_t *diag) {
  static const uint32_t kind[] = {[MR_FEATURE_BYTES] = MR_COLUMN_BYTES,
                                  [MR_FEATURE_FLOAT] = MR_COLUMN_FLOAT,
                                  [MR_FEATURE_INT64] = MR_COLUMN_INT64,
                                  [MR_FEATURE_NONE] = MR_COLUMN_EMPTY};
  uint32_t column, as = kind[f->kind];
  size_t bytes = 0;
  if (f->kind == MR_FEATURE_BYTES && f->n == 1) mr_example_bytes(f, &bytes);
  if (f->kind == MR_FEATURE_BYTES && f->n != 1) as = MR_COLUMN_LIST;
  mr_err_t e = mr_shard_draft_column(t->draft, f->name, f->name_n, as, &column, NULL);
  if (e == MR_ERR_DATA) return note_unnamed(t, f, diag);
  if (e < 0) return mr_no_memory(diag, "the features of a record");
  if (column >= MR_SHARD_COLUMNS_MAX) return MR_OK; /* beyond those that are counted */
  if (t->seen[column] != t->record) t->column[t->n_columns++] = column;
  t->seen[column] = t->record;
  t->value[column] = as == MR_COLUMN_BYTES ? (int64_t)bytes : f->n;
  return MR_OK;
}

/* Notes the names of the feature lists of a SequenceExample. */
static mr_err_t note_sequences(mr_example_count_t *t, const uint8_t *data, size_t n,
                               mr_diag_t *diag) {
  mr_example_walk_t w = {.at = data, .end = data + n, .sequences = true};
  mr_example_feature_t f;
  uint32_t column;
  while (mr_example_next(&w, &f, NULL) == MR_OK) {
    mr_err_t e =
        mr_shard_draft_column(t->draft, f.name, f.name_n, MR_COLUMN_SEQUENCE, &column, NULL);
    if (e == MR_ERR_NOMEM) return mr_no_memory(diag, "the features of a record");
    if (e >= 0) mr_shard_draft_count(t->draft, column, 0);
  }
  return MR_OK;
}

mr_err_t mr_example_count(mr_example_count_t *t, const uint8_t *data, size_t n, mr_diag_t *diag) {
  mr_example_walk_t whole = {.at = data, .end = data + n}, w = whole;
  mr_example_feature_t f;
  mr_err_t e;
  uint32_t column;
  bool some = false;
  while ((e = mr_example_next(&w, &f, NULL)) == MR_OK) some = true;
  if (e < 0) return MR_OK;
  if (!some) return note_sequences(t, data, n, diag);
  MR_TRY(mr_shard_draft_column(t->draft, "", 0, MR_COLUMN_EXAMPLE, &column, diag));
  mr_shard_draft_count(t->draft, column, 0);
  t->record++, t->n_columns = 0;
  while (mr_example_next(&whole, &f, NULL) == MR_OK) MR_TRY(note_feature(t, &f, diag));
  for (int i = 0; i < t->n_columns; i++)
    mr_shard_draft_count(t->draft, t->column[i], t->value[t->column[i]]);
  return note_sequences(t, data, n, diag);
}
