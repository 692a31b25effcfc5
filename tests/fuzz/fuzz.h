/* What the fuzz targets share: a folder of this process in memory, and files in it. */
#ifndef MR_TESTS_FUZZ_H
#define MR_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "links/links.h"
#include "loaders/loaders.h"
#include "pipeline/registry.h"
#include "pipeline/run/runtime_private.h"
#include "pipeline/stage_source.h"
#include "sinks/sinks.h"
#include "stages/stages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline void fuzz_need(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "the harness failed: %s\n", what);
  abort();
}

static inline const char *fuzz_folder(void) {
  static char folder[64];
  if (*folder) return folder;
  const char *where = getenv("TMPDIR");
  fuzz_need(!where || strlen(where) < 40, "a short TMPDIR");
  snprintf(folder, sizeof folder, "%s/fuzz-%ld", where ? where : "/tmp", (long)getpid());
  fuzz_need(mkdir(folder, 0700) == 0, "mkdir");
  return folder;
}

/* Writes a file and gives its path, which stays until the next call but three. */
static inline const char *fuzz_file(const char *name, const void *data, size_t n) {
  static char path[4][128];
  static int turn;
  char *p = path[turn++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", fuzz_folder(), name);
  FILE *f = fopen(p, "wb");
  fuzz_need(f && fwrite(data, 1, n, f) == n && fclose(f) == 0, p);
  return p;
}

static inline const mr_registry_t *fuzz_stages(void) {
  static mr_registry_t reg;
  if (reg.n) return &reg;
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_links_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  return &reg;
}

/* The graph's side of a stage made by hand: what a sink says of its metrics is kept here. */
static inline mr_runtime_t *fuzz_runtime(void) {
  static mr__node_t node;
  static mr_runtime_t rt;
  if (!rt.g) rt.g = mr_graph_create(fuzz_stages());
  rt.node = &node;
  return &rt;
}

/* A stage made by hand with settings "name=value" up to a NULL, planned and opened; fuzz_close
   follows in any case. */
typedef struct fuzz_stage {
  mr_stage_t s;
  mr_diag_t diag;
  mr_spec_t out; /* a source's */
  bool linked;
} fuzz_stage_t;

static inline mr_err_t fuzz_open(fuzz_stage_t *f, const char *def, const char *const *settings) {
  memset(f, 0, sizeof *f);
  f->s.def = mr_registry_find(fuzz_stages(), def);
  fuzz_need(f->s.def != NULL, def);
  f->s.name = def, f->s.n_workers = 1, f->s.diag = &f->diag, f->s.rt = fuzz_runtime();
  f->s.n_out = 1, f->s.out_spec = &f->out, f->s.out_linked = &f->linked;
  f->s.state = calloc(1, f->s.def->state_sz);
  for (const mr_opt_t *o = f->s.def->opts; o->name; o++)
    if (o->def) fuzz_need(mr_opt_set(o, f->s.state, def, o->def, &f->diag) >= 0, o->name);
  for (; *settings; settings++) {
    char name[64];
    const char *value = strchr(*settings, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(value - 1 - *settings), *settings);
    const mr_opt_t *o = mr_stage_def_opt(f->s.def, name);
    fuzz_need(o != NULL, name);
    MR_TRY(mr_opt_set(o, f->s.state, def, value, &f->diag));
  }
  MR_TRY(f->s.def->plan(&f->s));
  return f->s.def->open(&f->s);
}

/* Asks for every record of a source and looks at its first and last byte. */
static inline void fuzz_fetch_all(fuzz_stage_t *f) {
  const mr_spec_t *spec = &f->s.out_spec[0];
  size_t bytes = mr_field_bytes(spec->field);
  for (int64_t i = 0; i < spec->n_records && i < 4096; i++) {
    static _Alignas(64) char room[64];
    mr_value_t value[2] = {{0}, {.data = room}}; /* the sources under test write labels alone */
    mr_rec_t r = {.field = value};
    f->diag = (mr_diag_t){0};
    if (f->s.def->source->fetch(&f->s, 0, &i, 1, &r) < 0) continue;
    fuzz_need(*(int32_t *)room >= 0 && *(int32_t *)room < spec->dataset->n_classes,
              "a label out of range came out");
    volatile uint8_t sink =
        ((const uint8_t *)value->data)[0] ^ ((const uint8_t *)value->data)[bytes - 1];
    (void)sink;
  }
}

static inline void fuzz_close(fuzz_stage_t *f) {
  if (f->s.def->close) f->s.def->close(&f->s);
  if (f->s.def->forget) f->s.def->forget(&f->s);
  free(f->s.state);
}

#define FUZZ_SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
