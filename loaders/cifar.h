/* What the sources of CIFAR's binary files share: records of some label bytes and a picture, in
   files of one size, split into parts. */
#ifndef MR_LOADERS_CIFAR_H
#define MR_LOADERS_CIFAR_H

#include "loaders/class_names.h"
#include "loaders/split.h"
#include "loaders/store.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { MR_CIFAR_FILES = 5, MR_CIFAR_PATH = 1024 /* bytes of a folder's name and its end */ };

typedef struct mr_cifar mr_cifar_t;

/* One of the two layouts. */
typedef struct mr_cifar_kind {
  const char *origin; /* of mr_dataset_t */
  int head;           /* label bytes before a picture */

  /* How many files hold the records of the split. */
  int (*n_files)(const mr_cifar_t *t);
  /* The path of the i-th of them into text[0,n). */
  void (*path)(const mr_cifar_t *t, int i, char *text, size_t n);
  /* The id of a record that stands at this number of those files. */
  uint64_t (*id)(const mr_cifar_t *t, int64_t number);
  /* As mr_store_conf_t.check. */
  mr_err_t (*check)(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                    mr_diag_t *diag);
} mr_cifar_kind_t;

/* The state of such a source, or its first member.  The settings are MR_CIFAR_OPTS; plan sets the
   rest. */
struct mr_cifar {
  const char *folder;
  int backend;
  bool ahead;
  int64_t memory, records; /* records: of a file of training records */
  mr_split_t split;
  mr_care_t care;
  const mr_cifar_kind_t *kind;
  const char *names_file; /* of the folder */
  int label_at;           /* which byte of a record is its label */
  mr_class_names_t names;
  mr_dataset_t dataset;
  mr_store_t *store;
};

/* After split.training and split.test are set: settles the spec, with these names of classes unless
   the folder's names_file has others. */
mr_err_t mr__cifar_plan(mr_stage_t *s, const mr_cifar_kind_t *kind, const char *const *class_name,
                        int n_classes, const char *names_file);

/* What both stages are, behind their plans. */
mr_err_t mr__cifar_open(mr_stage_t *s);
void mr__cifar_close(mr_stage_t *s);
extern const mr_source_def_t mr__cifar_source;

/* Rows of a table: clang-format would give each of their values a line. */
/* clang-format off */

/* All rows but those of one layout alone. */
#define MR_CIFAR_OPTS(usual, what)                                                    \
  {.name = "path", .type = MR_OPT_STR, .offset = offsetof(mr_cifar_t, folder),        \
   .def = usual, .help = what, .positional = 1},                                      \
      MR_SPLIT_OPTS(mr_cifar_t, split, "train", "5000"), MR_READ_OPTS(mr_cifar_t),    \
      MR_CARE_OPTS(mr_cifar_t, care)

/* The hooks that both share. */
#define MR_CIFAR_HOOKS                                                              \
  .open = mr__cifar_open, .close = mr__cifar_close, .source = &mr__cifar_source,    \
  .out = {{"out", MR_FLOW_RECORDS, false}}
/* clang-format on */

#endif
