/* Shared by the sources of shard files (tar, tfrecord, mds and others): the settings, the index
   files, and records by their index.  A container says how a file is scanned, which fields its
   records have, and how a field's value is made of a part's bytes. */
#ifndef MR_LOADERS_SHARDS_SHARD_SOURCE_H
#define MR_LOADERS_SHARDS_SHARD_SOURCE_H

#include <stdatomic.h>

#include "loaders/local/class_names.h"
#include "loaders/local/split.h"
#include "loaders/shards/shard_groups.h"
#include "loaders/shards/shard_names.h"
#include "loaders/shards/shard_reads.h"
#include "pipeline/care.h"
#include "pipeline/stage_source.h"

enum { MR_SHARD_LIST_MAX = 4096 /* bytes of fields=, with a final NUL */ };

typedef struct mr_shard_source mr_shard_source_t;

/* What fields= says of one field, "MEMBER:FIELD:AS".  The words live in the state. */
typedef struct mr_shard_field_word {
  const char *member, *field, *as; /* field, as: NULL if not given */
} mr_shard_field_word_t;

/* One field of the records. */
typedef struct mr_shard_field {
  int want; /* number in mr_shard_source_t.want of the part it is made of; -1: the record's key */
  int as;   /* the container's own way of making it */
  const char *member;
  bool unnamed; /* a label whose classes names= is not about, and that has no names */
} mr_shard_field_t;

/* A part of a record in memory; 64-aligned, and followed by zeros. */
typedef struct mr_shard_bytes {
  const uint8_t *data; /* NULL: the record lacks it */
  int64_t size;
} mr_shard_bytes_t;

typedef struct mr_shard_kind {
  const char *name;  /* of the stage */
  const char *index; /* kind of its index files; NULL: indexes are cheap and not kept */
  mr_shard_scan_fn *scan;
  uint32_t apart;           /* as in mr_shards_conf_t */
  const char *own;          /* likewise */
  mr_shard_group_fn *group; /* for containers that keep several records in one part; else NULL */

  /* Settles the fields from t->shards and word[0,n) (n == 0: fields= is not given): fills t->field,
     t->want and out->field, and sets bits of s->writes for fields that unpack writes into given
     room.  MR_OK, or a failure by mr_stage_fail. */
  mr_err_t (*settle)(mr_shard_source_t *t, mr_stage_t *s, const mr_shard_field_word_t *word, int n,
                     mr_spec_t *out);

  /* Sets the fields of rec, but those that are keys, from part[n_wants].  MR_ERR_DATA for an
     invalid record; the sentence need not name the file. */
  mr_err_t (*unpack)(const mr_shard_source_t *t, const mr_shard_bytes_t *part, mr_rec_t *rec,
                     mr_diag_t *diag);

  /* Checks the `head` bytes that stand before each part in the file, with every record: that they
     still are those of part p, called `member`, of the record with this key.  head is 0, or at most
     MR_SHARD_HEAD_MAX and a multiple of 64.  MR_ERR_DATA, as unpack. */
  int head;
  mr_err_t (*check_head)(const uint8_t *head, const char *key, const char *member,
                         const mr_shard_part_t *p, mr_diag_t *diag);

  /* Names the files of the data set by t->files, into the empty *out, and notes what prepare needs;
     what it notes lives in the state.  NULL: files= names them.  MR_ERR_CONFIG, MR_ERR_IO,
     MR_ERR_DATA, MR_ERR_NOMEM. */
  mr_err_t (*list)(mr_shard_source_t *t, mr_shard_names_t *out, mr_diag_t *diag);

  /* As in mr_shards_conf_t, with the state as ctx; may be NULL. */
  mr_err_t (*prepare)(const void *ctx, int i, mr_shard_file_t *file, const mr_shard_id_t *id,
                      char **other, mr_diag_t *diag);
  mr_err_t (*verify)(const void *ctx, int i, int fd, const char *path, mr_diag_t *diag);
} mr_shard_kind_t;

/* What the files themselves call the classes of one column. */
typedef struct mr_shard_named {
  char of[MR_SHARD_NAME_MAX]; /* the column */
  mr_classes_t list;          /* n 0: none, as files differ */
  const char **name;          /* [list.n] heap, of texts in the indexes */
  int at;                     /* a class that files call differs[0] and differs[1] */
  const char *differs[2];     /* NULL: they agree */
} mr_shard_named_t;

/* The state of such a source, or its first member.  MR_SHARD_OPTS fills the settings, plan the
   rest. */
struct mr_shard_source {
  const char *files, *index, *fields, *names_file;
  int64_t classes, id_base;
  bool ahead;
  mr_remote_conf_t remote;
  mr_split_t split;
  mr_care_t care;
  const mr_shard_kind_t *kind;
  char list[MR_SHARD_LIST_MAX];
  mr_shards_t *shards; /* from plan to forget */
  mr_shard_field_t field[MR_FIELDS_MAX];
  int n_fields;
  int want[MR_SHARD_PARTS_READ]; /* [n_wants] columns of shards whose parts are read */
  int n_wants;
  int sums; /* of want: parts whose item is the mr_shard_sum of their bytes; -1: there are none */
  mr_field_t spec[MR_FIELDS_MAX]; /* the fields, as settled */
  mr_class_names_t names;         /* from plan to forget */
  mr_dataset_t dataset;
  mr_classes_t named;    /* those names, if they are given and not numbers */
  int packed;            /* the shard beside which they lie; -1: none */
  mr_shard_named_t *own; /* [n_own] heap, from plan to forget */
  int n_own;
  mr_shard_reads_t *reads;     /* from open to close */
  mr_shard_groups_t *groups;   /* as long; NULL: each part is of one record */
  atomic_bool foreseen;        /* the future is announced by foresee, not by ahead */
  int order_seen, order_jumps; /* of the first records announced: how many, and those that do not
                                  follow the one before */
  int64_t order_next;
  mr_remote_counts_t counts; /* set by close, for the report */
};

/* Opens the shards and settles the output spec.  MR_ERR_CONFIG for wrong settings; fails as
   mr_shards_open and the kind's settle. */
mr_err_t mr__shard_source_plan(mr_stage_t *s, const mr_shard_kind_t *kind);

/* The other hooks. */
void mr__shard_source_forget(mr_stage_t *s);
mr_err_t mr__shard_source_open(mr_stage_t *s);
void mr__shard_source_close(mr_stage_t *s);
void mr__shard_source_report(mr_stage_t *s, char *text, size_t n);
extern const mr_source_def_t mr__shard_source;

/* For settle: returns the number in t->want of a column, which it adds if it is new. */
int mr__shard_source_want(mr_shard_source_t *t, int column);

/* For settle: parts of this column are read with every record, and have to be what the scan has
   read: their item is the mr_shard_sum of their bytes. */
void mr__shard_source_sums(mr_shard_source_t *t, int column);
uint32_t mr_shard_sum(const void *bytes, size_t n);

/* For settle: a ragged field of up to `most` bytes.  Returned by value. */
mr_field_t mr__shard_bytes_field(const char *name, int64_t most);

/* For settle without fields=: the columns that become no field, each with its reason. */
enum { MR_SHARD_LEFT_WHYS = 16 /* different reasons; the last one takes what is beyond */ };
typedef struct mr_shard_left {
  int n_whys;
  struct mr_shard_left_why {
    char why[200], names[600]; /* the names quoted, as many as fit */
    int n, shown;
  } of[MR_SHARD_LEFT_WHYS];
} mr_shard_left_t;

/* Notes that a column becomes no field, for this reason; a repetition is dropped. */
void mr__shard_left_note(mr_shard_left_t *l, const char *column, const char *why);

/* Notes a column that has no field: `used` is the field's name, or NULL if not every record has the
   column.  Returns whether it was noted. */
bool mr__shard_left_add(mr_shard_left_t *l, const mr_shard_source_t *t, const char *column,
                        const char *used);

/* Names the columns that were left out, with their reasons, if any were; what: "column". */
void mr__shard_left_say(const mr_shard_left_t *l, const mr_shard_source_t *t, const char *what);

/* For unpack: MR_ERR_DATA with a sentence if label is not in [0,classes), or if that is 0 in
   [0,2^31-1), else MR_OK. */
mr_err_t mr__shard_check_label(int64_t classes, int64_t label, mr_diag_t *diag);

/* For settle: compares names of classes that come with the data, whose list is called `where` in
   the sentence, with those that are used.  MR_OK if each number that both have is called the same;
   also, with a notice, if names= gives others, of which none is the name of another number.
   MR_ERR_DATA with both lists: a name has two numbers, or without names= a number two names. */
mr_err_t mr__shard_agree(mr_stage_t *s, const mr_classes_t *with_data, const char *where);

/* In plan: says of a column that is called as a label, and whose field f is none, what it holds. */
void mr__shard_say_no_label(const mr_shard_source_t *t, const char *column, const mr_field_t *f);

/* Rows of a table: clang-format would put each value on its own line. */
/* clang-format off */
#define MR_SHARD_OPTS(what, fields_help)                                                          \
  {.name = "files", .hint =                                                                       \
   "path paths file filename filenames location url urls filepattern shards remote",\
   .type = MR_OPT_STR, .offset = offsetof(mr_shard_source_t, files),                              \
   .help = what, .positional = 1},                                                                \
  {.name = "fields", .type = MR_OPT_STR, .offset = offsetof(mr_shard_source_t, fields),           \
   .unit = "MEMBER:FIELD:AS,..", .help = fields_help},                                            \
  {.name = "index", .type = MR_OPT_STR, .offset = offsetof(mr_shard_source_t, index),             \
   .def = "auto",                                                                                 \
   .help = "Where index files, which are made at first use, are kept: auto (beside the file if "  \
           "one is there, else in the user's cache), beside, or a folder."},                      \
  {.name = "classes", .hint = "numclasses nclasses",                                              \
   .type = MR_OPT_INT, .offset = offsetof(mr_shard_source_t, classes),                            \
   .unit = "classes", .def = "0", .hi = MR_CLASSES_MAX,                                           \
   .help = "Labels are in [0,classes); 0: unknown."},                                             \
  {.name = "names", .type = MR_OPT_STR, .offset = offsetof(mr_shard_source_t, names_file),        \
   .help = "File of the class names, one per line; without classes= there are as many as names."},                                             \
  {.name = "id-base", .type = MR_OPT_INT, .offset = offsetof(mr_shard_source_t, id_base),         \
   .def = "0", .hi = 1e15,                                                                        \
   .help = "Id of the first record; give data sets that are used in one graph different ids."},   \
  {.name = "read-ahead", .type = MR_OPT_BOOL, .offset = offsetof(mr_shard_source_t, ahead),       \
   .def = "true", .help = "Reads records while earlier ones are transformed."},                   \
  MR_REMOTE_OPTS(mr_shard_source_t, remote),                                                      \
  MR_SPLIT_OPTS(mr_shard_source_t, split, "all", "0"), MR_CARE_OPTS(mr_shard_source_t, care)

#define MR_SHARD_HOOKS                                                                            \
  .open = mr__shard_source_open, .close = mr__shard_source_close,                                 \
  .forget = mr__shard_source_forget, .source = &mr__shard_source,                                 \
  .report = mr__shard_source_report,                                                              \
  .out = {{"out", MR_FLOW_RECORDS, false}}
/* clang-format on */

#endif
