/* Shared by the sources of CIFAR's binary files: records of label bytes and a picture, in files of
   equal size, with splits.  The hooks return what the stage and source definitions require
   (pipeline/stage.h, pipeline/stage_source.h): MR_OK, or a failure whose sentence is on the
   pipeline. */
#ifndef MR_LOADERS_FORMATS_CIFAR_H
#define MR_LOADERS_FORMATS_CIFAR_H

#include "loaders/local/class_names.h"
#include "loaders/local/split.h"
#include "loaders/local/store.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { MR_CIFAR_FILES = 5, MR_CIFAR_PATH = 1024 /* bytes of a folder's name and its end */ };

typedef struct mr_cifar mr_cifar_t;

/* One of the two layouts. */
typedef struct mr_cifar_kind {
  const char *origin; /* of mr_dataset_t */
  int head;           /* label bytes before a picture */

  /* Returns the number of files of the split, in [1,MR_CIFAR_FILES]. */
  int (*n_files)(const mr_cifar_t *t);
  /* Writes the path of file i into text[0,n). */
  void (*path)(const mr_cifar_t *t, int i, char *text, size_t n);
  /* Returns the key of the record at this number of those files. */
  uint64_t (*id)(const mr_cifar_t *t, int64_t number);
  /* As mr_store_conf_t.check. */
  mr_err_t (*check)(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                    mr_diag_t *diag);
} mr_cifar_kind_t;

/* The state of such a source, or its first member.  MR_CIFAR_OPTS fills the settings, plan the
   rest. */
struct mr_cifar {
  const char *folder;
  int backend;
  bool ahead;
  int64_t memory, records; /* records: in each file of training records */
  mr_split_t split;
  mr_care_t care;
  const mr_cifar_kind_t *kind;
  int label_at; /* offset of the label byte in a record */
  mr_class_names_t names;
  mr_dataset_t dataset;
  mr_classes_t named;
  mr_store_t *store;
};

/* Settles the output spec; call it after setting split.training and split.test.  The class names
   are class_name[n_classes], static, unless the folder's names_file has others.
   MR_ERR_CONFIG if the split is empty. */
mr_err_t mr__cifar_plan(mr_stage_t *s, const mr_cifar_kind_t *kind, const char *const *class_name,
                        int n_classes, const char *names_file);

/* The hooks and the source of both stages.  Open checks the folder and opens the
   store: MR_ERR_CONFIG, MR_ERR_IO, MR_ERR_DATA or MR_ERR_NOMEM, with the sentence on the
   pipeline. */
mr_err_t mr__cifar_open(mr_stage_t *s);
void mr__cifar_close(mr_stage_t *s);
void mr__cifar_forget(mr_stage_t *s);
extern const mr_source_def_t mr__cifar_source;

/* Rows of a table: clang-format would put each value on its own line. */
/* clang-format off */

/* The rows that both layouts have. */
#define MR_CIFAR_OPTS(usual, what)                                                    \
  {.name = "path", .hint = "root datadir dataroot datapath dir directory folder location",        \
   .type = MR_OPT_STR, .offset = offsetof(mr_cifar_t, folder),                                    \
   .def = usual, .help = what, .positional = 1},                                                  \
      MR_SPLIT_OPTS(mr_cifar_t, split, "train", "5000"), MR_READ_OPTS(mr_cifar_t),    \
      MR_CARE_OPTS(mr_cifar_t, care)

/* The hooks that both stages share. */
#define MR_CIFAR_HOOKS                                                              \
  .open = mr__cifar_open, .close = mr__cifar_close, .forget = mr__cifar_forget,     \
  .source = &mr__cifar_source,                                                      \
  .out = {{"out", MR_FLOW_RECORDS, false}}
/* clang-format on */

#endif
