/* What the targets of sharded containers share: a file as the only shard of a source, all records
   of which are fetched. */
#ifndef MR_TESTS_FUZZ_SHARDS_H
#define MR_TESTS_FUZZ_SHARDS_H

#include "base/err.h"
#include "tests/fuzz/fuzz.h"

static inline void fuzz_no_notice(void *arg, const char *text) {}

/* Room for the fields that fetch writes; a record that would need more is not fetched. */
static inline void fuzz_fetch_fields(fuzz_stage_t *f) {
  static _Alignas(64) char room[MR_FIELDS_MAX][1 << 16];
  const mr_spec_t *spec = &f->s.out_spec[0];
  for (int i = 0; i < spec->n_fields; i++)
    if (f->s.writes >> i & 1 && mr_field_bytes(&spec->field[i]) > sizeof room[0]) return;
  for (int64_t i = 0; i < spec->n_records && i < 4096; i++) {
    mr_value_t value[MR_FIELDS_MAX];
    for (int k = 0; k < MR_FIELDS_MAX; k++) value[k] = (mr_value_t){.data = room[k]};
    mr_rec_t r = {.field = value};
    f->diag = (mr_diag_t){0};
    if (f->s.def->source->fetch(&f->s, 0, &i, 1, &r) < 0) continue;
    for (int k = 0; k < spec->n_fields; k++) {
      const mr_field_t *field = &spec->field[k];
      int64_t rows = field->ragged ? value[k].rows : 1;
      fuzz_need(rows >= 0 && (!field->ragged || rows <= field->dim[0]),
                "rows out of range came out");
      size_t bytes = field->ragged ? (size_t)rows * mr_field_row(field) : mr_field_bytes(field);
      const volatile uint8_t *at = value[k].data;
      if (bytes) (void)(at[0] ^ at[bytes - 1]);
    }
  }
}

/* Opens the file as `def` and fetches everything; settings begins at the second. */
static inline void fuzz_shard(const char *def, const char *path, bool lenient,
                              const char *const *settings) {
  char files[160];
  const char *all[8] = {files, "index=beside"};
  snprintf(files, sizeof files, "files=%s", path);
  for (int i = 0; settings[i] && i < 5; i++) all[i + 2] = settings[i];
  mr_notice_to(fuzz_no_notice, NULL);
  fuzz_stage_t f;
  mr_err_t e = fuzz_open(&f, def, all);
  if (e < 0 && lenient && f.s.def) {
    if (f.s.def->forget) f.s.def->forget(&f.s);
    *(bool *)((char *)f.s.state + f.s.def->source->care + offsetof(mr_care_t, lenient)) = true;
    f.diag = (mr_diag_t){0};
    e = f.s.def->plan(&f.s);
    if (e >= 0) e = f.s.def->open(&f.s);
  }
  if (e >= 0) fuzz_fetch_fields(&f);
  if (f.s.def->close) f.s.def->close(&f.s);
  f.s.def->forget(&f.s);
  free(f.s.state);
}

#endif
