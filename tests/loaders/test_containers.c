/* The same records in every container: a shuffled graph gives the same bytes, keys and ledger from
   each, and the same rest when it begins at a later batch. */
#include "base/classes.h"
#include "base/crc32c.h"
#include "base/ledger.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/safetensors.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "pipeline/stage_step.h"
#include "stages/stages.h"
#include "tests/loaders/arrayrecord.h"
#include "tests/loaders/beton.h"
#include "tests/loaders/litdata.h"
#include "tests/loaders/mds.h"

#include <errno.h>
#include <xxhash.h>

enum {
  CONTAINERS = 10,
  RECORDS = 230,
  SHARDS = 3,
  A = 12 /* bytes of field a */,
  BATCH = 16,
  BATCHES = 64
};

static uint8_t a[RECORDS][A];
static int64_t id[RECORDS];

/* ---- writing ---- */

/* Makes a folder, which an earlier test may have made. */
static void make_inside(const char *name) {
  if (mkdir(in_folder(name), 0700) < 0 && errno != EEXIST) fail_msg("%s", name);
}

static int first_of(int shard) { return RECORDS * shard / SHARDS; }

static void write_npy_files(void) {
  mr_diag_t d = {0};
  int64_t dim[] = {RECORDS, A};
  if (mr_npy_save(in_folder("a.npy"), MR_U8, 2, dim, a, &d) < 0 ||
      mr_npy_save(in_folder("id.npy"), MR_I64, 1, dim, id, &d) < 0)
    fail_msg("%s", d.text);
}

static void add_tar_member(image_t *o, const char *name, const void *data, size_t n) {
  uint8_t *h = image_add(o, NULL, 512);
  unsigned sum = 0;
  snprintf((char *)h, 100, "%s", name);
  snprintf((char *)h + 124, 12, "%011zo", n);
  h[156] = '0';
  memset(h + 148, ' ', 8);
  for (int i = 0; i < 512; i++) sum += h[i];
  snprintf((char *)h + 148, 7, "%06o", sum);
  image_add(o, data, n);
  image_add(o, NULL, (512 - n % 512) % 512);
}

static void write_tar_files(void) {
  char name[64], head[MR_NPY_HEAD_MAX], text[32];
  int64_t dim[] = {A};
  for (int k = 0; k < SHARDS; k++) {
    image_t o = {0};
    for (int i = first_of(k); i < first_of(k + 1); i++) {
      image_t array = {0};
      image_add(&array, head, mr_npy_head(MR_U8, 1, dim, head));
      image_add(&array, a[i], A);
      snprintf(name, sizeof name, "%d.a.npy", i), add_tar_member(&o, name, array.at, array.n);
      snprintf(text, sizeof text, "%lld", (long long)id[i]);
      snprintf(name, sizeof name, "%d.id", i), add_tar_member(&o, name, text, strlen(text));
      free(array.at);
    }
    image_add(&o, NULL, 1024);
    snprintf(name, sizeof name, "s-%d.tar", k), write_file(name, o.at, o.n);
    free(o.at);
  }
}

/* A message of less than 128 bytes behind its tag. */
static void add_message(image_t *o, uint8_t tag, const image_t *m) {
  uint8_t head[] = {tag, (uint8_t)m->n};
  assert_true(m->n < 128);
  image_add(o, head, 2), image_add(o, m->at, m->n);
}

static void add_feature(image_t *map, const char *name, uint8_t kind, const image_t *list) {
  image_t feature = {0}, entry = {0}, text = {(uint8_t *)name, strlen(name), 0};
  add_message(&feature, kind, list);
  add_message(&entry, 0x0A, &text), add_message(&entry, 0x12, &feature);
  add_message(map, 0x0A, &entry);
  free(feature.at), free(entry.at);
}

/* Record i as an Example. */
static image_t make_example(int i) {
  image_t bytes = {a[i], A, 0}, list = {0}, map = {0}, example = {0};
  add_message(&list, 0x0A, &bytes), add_feature(&map, "a", 0x0A, &list);
  list.n = 0;
  image_add(&list, "\x08", 1);
  ar_varint(&list, (uint64_t)id[i]);
  add_feature(&map, "id", 0x1A, &list);
  add_message(&example, 0x0A, &map);
  free(list.at), free(map.at);
  return example;
}

static void write_tfrecord_files(void) {
  for (int k = 0; k < SHARDS; k++) {
    image_t o = {0};
    char name[32];
    for (int i = first_of(k); i < first_of(k + 1); i++) {
      image_t example = make_example(i);
      uint64_t n = example.n;
      uint32_t sum = mr_crc32c_mask(mr_crc32c(&n, 8));
      image_add(&o, &n, 8), image_add(&o, &sum, 4), image_add(&o, example.at, example.n);
      sum = mr_crc32c_mask(mr_crc32c(example.at, example.n));
      image_add(&o, &sum, 4);
      free(example.at);
    }
    snprintf(name, sizeof name, "s-%d.tfrecord", k), write_file(name, o.at, o.n);
    free(o.at);
  }
}

/* Five records in a chunk. */
static void write_arrayrecord_files(void) {
  char name[40];
  for (int k = 0; k < SHARDS; k++) {
    ar_out_t o = {0};
    for (int i = first_of(k), n; i < first_of(k + 1); i += n) {
      image_t values = {0};
      size_t size[5];
      for (n = 0; n < 5 && i + n < first_of(k + 1); n++) {
        image_t example = make_example(i + n);
        size[n] = example.n, image_add(&values, example.at, example.n);
        free(example.at);
      }
      image_t data = ar_plain(values.at, size, n);
      ar_records(&o, (uint64_t)n, values.n, &data);
      free(values.at), free(data.at);
    }
    ar_end(&o);
    snprintf(name, sizeof name, "s-%d.array_record", k), write_file(name, o.file.at, o.file.n);
    ar_free(&o);
  }
}

static void write_row_files(void) {
  mr_diag_t d = {0};
  char name[40];
  for (int k = 0; k < SHARDS; k++) {
    int64_t n = first_of(k + 1) - first_of(k);
    mr_npz_array_t z[] = {
        {.name = "a", .dtype = MR_U8, .ndim = 2, .dim = {n, A}, .data = a[first_of(k)]},
        {.name = "id", .dtype = MR_I64, .ndim = 1, .dim = {n}, .data = id + first_of(k)}};
    mr_st_tensor_t t[] = {
        {.name = "a", .dtype = MR_U8, .ndim = 2, .dim = {n, A}, .data = a[first_of(k)]},
        {.name = "id", .dtype = MR_I64, .ndim = 1, .dim = {n}, .data = id + first_of(k)}};
    snprintf(name, sizeof name, "s-%d.npz", k);
    mr_err_t e = mr_npz_save(in_folder(name), z, 2, &d);
    snprintf(name, sizeof name, "s-%d.safetensors", k);
    if (e >= 0) e = mr_safetensors_write(in_folder(name), t, 2, NULL, 0, &d);
    if (e < 0) fail_msg("%s", d.text);
  }
}

static void write_mds_files(void) {
  char text[2000] = "", name[32];
  for (int k = 0; k < SHARDS; k++) {
    mds_shard_t o = {.columns =
                         "\"column_names\": [\"a\", \"id\"], \"column_encodings\": "
                         "[\"ndarray:uint8:12\", \"int\"], \"column_sizes\": [12, 8]"};
    for (int i = first_of(k); i < first_of(k + 1); i++)
      mds_sample(&o, a[i], A, &id[i], 8); /* no column varies */
    image_t file = mds_file(&o);
    snprintf(name, sizeof name, "shard.%05d.mds", k), write_file(name, file.at, file.n);
    mds_index_add(text, sizeof text, name, file.n, "", "null", "null");
    mds_free(&o), free(file.at);
  }
  mds_index_write(text, sizeof text);
}

/* A cell of bytes in quotes, where those that are quotes are doubled. */
static void write_table_files(void) {
  char name[32], text[32];
  for (int k = 0; k < SHARDS; k++) {
    image_t o = {0};
    image_add(&o, "id,a\n", 5);
    for (int i = first_of(k); i < first_of(k + 1); i++) {
      image_add(&o, text, (size_t)snprintf(text, sizeof text, "%lld,\"", (long long)id[i]));
      for (int c = 0; c < A; c++) image_add(&o, (uint8_t[]){a[i][c], '"'}, a[i][c] == '"' ? 2 : 1);
      image_add(&o, "\"\n", 2);
    }
    snprintf(name, sizeof name, "s-%d.csv", k), write_file(name, o.at, o.n);
    free(o.at);
  }
}

/* A row: the number, and the place of the array. */
static void write_beton_files(void) {
  char name[32];
  for (int k = 0; k < SHARDS; k++) {
    beton_out_t o = {.row = 16, .place = {8}, .n_places = 1};
    beton_field(&o, 1, "id", NULL, 0, NULL);
    beton_field(&o, 4, "a", (uint64_t[]){A}, 1, "[[\"\", \"|u1\"]]");
    for (int i = first_of(k); i < first_of(k + 1); i++, o.n++) {
      uint64_t at = beton_value(&o, a[i], A);
      image_add(&o.rows, &id[i], 8), image_add(&o.rows, &at, 8);
    }
    image_t file = beton_file(&o);
    snprintf(name, sizeof name, "s-%d.beton", k), write_file(name, file.at, file.n);
    beton_free(&o), free(file.at);
  }
}

static void write_litdata_files(void) {
  char text[4000] = "", name[32];
  make_inside("lit");
  for (int k = 0; k < SHARDS; k++) {
    litdata_out_t o = {0};
    for (int i = first_of(k); i < first_of(k + 1); i++)
      litdata_item(&o, (const void *[]){a[i], &id[i]}, (uint32_t[]){A, 8}, 2);
    image_t file = litdata_file(&o);
    snprintf(name, sizeof name, "lit/chunk-0-%d.bin", k), write_file(name, file.at, file.n);
    litdata_index_add(text, sizeof text, name + 4, (uint32_t)(first_of(k + 1) - first_of(k)));
    litdata_free(&o), free(file.at);
  }
  litdata_index_end(text, sizeof text, "[\"no_header_numpy:4\", \"int\"]",
                    "[\\\\\\\"a\\\\\\\", \\\\\\\"id\\\\\\\"]", 2, "");
  write_file("lit/index.json", text, strlen(text));
}

/* A file for each record, whose name gives its place; its class is not compared. */
static void write_folder_files(void) {
  char name[40];
  make_inside("tree"), make_inside("tree/class");
  for (int i = 0; i < RECORDS; i++)
    snprintf(name, sizeof name, "tree/class/%03d.png", i), write_file(name, a[i], A);
}

/* ---- reading ---- */

static struct {
  uint64_t ledger[BATCHES];            /* after each batch */
  uint64_t bytes[BATCHES], a[BATCHES]; /* of each batch; of its first field */
  int n;
} saw;

static mr_err_t watch_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  XXH3_state_t *hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  for (int f = 0; f < s->in_spec[0].n_fields; f++)
    XXH3_64bits_update(hash, b->field[f].data,
                       (size_t)b->n * mr_field_bytes(&s->in_spec[0].field[f]));
  saw.a[saw.n] = XXH3_64bits(b->field[0].data, (size_t)b->n * A);
  uint64_t before = saw.n ? saw.ledger[saw.n - 1] : 0;
  saw.ledger[saw.n] = mr_ledger_step(before, saw.n + 1, b->key, b->draw, b->n, 0);
  saw.bytes[saw.n++] = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  mr_buf_unref(b);
  return MR_OK;
}
static const mr_stage_def_t watch = {.name = "watch",
                                     .help = "Notes what comes.",
                                     .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
                                     .step = &(const mr_step_def_t){.run = watch_step}};
static const mr_stage_def_t *const own[] = {&watch, NULL};

static const mr_registry_t *stages_here(void) {
  static mr_registry_t reg;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages), mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, own);
  }
  return &reg;
}

static void run_from(const char *source, int first, int workers) {
  char text[600];
  mr_diag_t d = {0};
  snprintf(text, sizeof text,
           "%s id-base=9 split=train holdout=30 ! shuffle seed=3 epochs=2 ! "
           "batch %d workers=%d name=bat ! watch",
           source, BATCH, workers);
  mr_graph_t *g = mr_graph_create(stages_here());
  saw.n = 0;
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_settle(g, &d) < 0 ||
      (first && mr_graph_start_number(g, "bat", first, &d) < 0) || mr_graph_run(g, &d) < 0)
    fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
}

static void write_all(void) {
  write_npy_files(), write_tar_files(), write_tfrecord_files();
  write_row_files(), write_mds_files(), write_table_files();
  write_beton_files(), write_arrayrecord_files();
  write_litdata_files(), write_folder_files();
}

static void one_ledger_from_every_container(void **state) {
  char source[CONTAINERS][300];
  round_t r = {.x = 5};
  for (int i = 0; i < RECORDS; i++) {
    for (int k = 0; k < A; k++) a[i][k] = (uint8_t)round_bits(&r);
    id[i] = 1 + (int64_t)(round_bits(&r) >> 8); /* at most 17 digits */
  }
  write_all();
  snprintf(source[0], 300, "npy fields=a:%s/a.npy,id:%s/id.npy", folder, folder);
  snprintf(source[1], 300, "tar %s/s-{0..%d}.tar fields=a.npy:a:npy,id", folder, SHARDS - 1);
  snprintf(source[2], 300, "tfrecord %s/s-{0..%d}.tfrecord fields=a:a:u8[12],id", folder,
           SHARDS - 1);
  snprintf(source[3], 300, "npz %s/s-{0..%d}.npz", folder, SHARDS - 1);
  snprintf(source[4], 300, "safetensors %s/s-{0..%d}.safetensors fields=a,id", folder, SHARDS - 1);
  snprintf(source[5], 300, "mds %s", folder);
  snprintf(source[7], 300, "beton %s/s-{0..%d}.beton fields=a,id", folder, SHARDS - 1);
  snprintf(source[6], 300, "table %s/s-{0..%d}.csv fields=a,id", folder, SHARDS - 1);
  snprintf(source[8], 300, "arrayrecord %s/s-{0..%d}.array_record fields=a:a:u8[12],id", folder,
           SHARDS - 1);
  snprintf(source[9], 300, "litdata %s/lit fields=a,id", folder);
  run_from(source[0], 0, 1);
  __typeof__(saw) want = saw;
  assert_int_equal(want.n, 2 * ((RECORDS - 30 + BATCH - 1) / BATCH));
  for (int k = 1; k < CONTAINERS; k++)
    for (int workers = 1; workers < 4; workers++) {
      run_from(source[k], 0, workers);
      assert_int_equal(saw.n, want.n);
      assert_memory_equal(saw.ledger, want.ledger, (size_t)want.n * 8);
      assert_memory_equal(saw.bytes, want.bytes, (size_t)want.n * 8);
    }
  char tree[300];
  snprintf(tree, sizeof tree, "folder %s/tree max-bytes=%d", folder, A);
  run_from(tree, 0, 2);
  assert_int_equal(saw.n, want.n);
  assert_memory_equal(saw.ledger, want.ledger, (size_t)want.n * 8);
  assert_memory_equal(saw.a, want.a, (size_t)want.n * 8);
  for (int first = 1; first < want.n; first += 5)
    for (int k = 1; k < CONTAINERS; k++) {
      run_from(source[k], first, 2);
      assert_int_equal(saw.n, want.n - first);
      assert_memory_equal(saw.bytes, want.bytes + first, (size_t)saw.n * 8);
    }
}

/* ---- classes ---- */

enum { CLASSES = 5 };

/* The numbers are places in a list of names, and the lists of two sources disagree: in their order,
   and in one name that only the first has, another that only the second has, and a third that both
   write in another of Unicode's forms. */
static const char *const one_list[] = {"ant", "caf\xC3\xA9", "cat", "dog", "eel"},
                         *const other_list[] = {"eel", "dog", "fox", "cafe\xCC\x81", "cat"};
static const int32_t in_both[] = {4, 3, 5, 1, 2}; /* of the second list's classes */

static void write_list(const char *name, const char *const list[CLASSES]) {
  char text[100];
  int n = 0;
  for (int c = 0; c < CLASSES; c++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", list[c]);
  write_file(name, text, (size_t)n);
}

static struct {
  int n;
  int32_t label[2 * RECORDS];
  char classes[200];
} labels;

static mr_err_t note_labels_step(mr_stage_t *s) {
  mr_buf_t *b;
  mr_err_t e = mr_pull(s, 0, &b);
  if (e != MR_OK) return e;
  if (labels.n + b->n <= 2 * RECORDS)
    memcpy(labels.label + labels.n, b->field[0].data, (size_t)b->n * sizeof *labels.label);
  labels.n += b->n;
  mr_classes_text(s->in_spec[0].field[0].classes, labels.classes, sizeof labels.classes);
  mr_buf_unref(b);
  return MR_OK;
}
static const mr_stage_def_t note_labels = {.name = "note-labels",
                                           .help = "Notes what comes.",
                                           .in = {{.name = "in", .flow = MR_FLOW_BATCHES}},
                                           .step = &(const mr_step_def_t){.run = note_labels_step}};
static const mr_stage_def_t *const noting[] = {&note_labels, NULL};

/* A source of container k, whose only field is the label. */
static void named_source(int k, const char *list, char text[400]) {
  static const char *const of[CONTAINERS] = {
      "npy images=%1$s/grey.npy labels=%1$s/label.npy",
      "tar %s/s-{0..%d}.tar fields=id:label:label",
      "tfrecord %s/s-{0..%d}.tfrecord fields=id:label:label",
      "npz %s/s-{0..%d}.npz fields=id:label:label",
      "safetensors %s/s-{0..%d}.safetensors fields=id:label:label",
      "mds %s fields=id:label:label",
      "table %s/s-{0..%d}.csv fields=id:label:label",
      "beton %s/s-{0..%d}.beton fields=id:label:label",
      "arrayrecord %s/s-{0..%d}.array_record fields=id:label:label",
      "litdata %s/lit fields=id:label:label"};
  char files[200];
  snprintf(files, sizeof files, of[k], folder, SHARDS - 1);
  snprintf(text, 400, "%s names=%s/%s ! select label", files, folder, list);
}

static void join_sources(int k, const char *how) {
  char text[1200], a_text[400], b_text[400];
  mr_diag_t d = {0};
  named_source(k, "one.txt", a_text);
  named_source((k + 1) % CONTAINERS, "other.txt", b_text);
  snprintf(text, sizeof text, "%s ! %s%s ! j. j. ! batch 16 ! note-labels", a_text, how, b_text);
  static mr_registry_t reg;
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages), mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, noting);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  labels.n = 0;
  if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_settle(g, &d) < 0 ||
      mr_graph_run(g, &d) < 0)
    fail_msg("%s: %s", text, d.text);
  mr_graph_destroy(g);
  assert_int_equal(labels.n, 2 * RECORDS);
  if (strcmp(labels.classes, "ant, caf\xC3\xA9, cat, dog, eel, fox"))
    fail_msg("%s: %s", text, labels.classes);
}

static void classes_of_every_container_meet_by_name(void **state) {
  int64_t grey[] = {RECORDS, 3, 4}, one[] = {RECORDS};
  mr_diag_t d = {0};
  for (int i = 0; i < RECORDS; i++) id[i] = i * 7 % CLASSES;
  write_all();
  write_list("one.txt", one_list), write_list("other.txt", other_list);
  int32_t narrow[RECORDS];
  for (int i = 0; i < RECORDS; i++) narrow[i] = (int32_t)id[i];
  if (mr_npy_save(in_folder("grey.npy"), MR_U8, 3, grey, a, &d) < 0 ||
      mr_npy_save(in_folder("label.npy"), MR_I32, 1, one, narrow, &d) < 0)
    fail_msg("%s", d.text);
  for (int k = 0; k < CONTAINERS; k++) {
    join_sources(k, "concatenate name=j ");
    for (int i = 0; i < RECORDS; i++) {
      assert_int_equal(labels.label[i], narrow[i]);
      assert_int_equal(labels.label[RECORDS + i], in_both[narrow[i]]);
    }
    join_sources(k, "mix name=j ");
    for (int i = 0; i < RECORDS; i++) {
      assert_int_equal(labels.label[2 * i], narrow[i]);
      assert_int_equal(labels.label[2 * i + 1], in_both[narrow[i]]);
    }
    join_sources(k, "interleave 2 name=j ");
    int32_t n[CLASSES + 1] = {0}, want[CLASSES + 1] = {0};
    for (int i = 0; i < RECORDS; i++) want[narrow[i]]++, want[in_both[narrow[i]]]++;
    for (int i = 0; i < 2 * RECORDS; i++) n[labels.label[i]]++;
    assert_memory_equal(n, want, sizeof n);
  }
}

static char heard[1000];

static void hear_notice(void *arg, const char *text) { snprintf(heard, sizeof heard, "%s", text); }

/* Names of a file in two forms, which stay two classes. */
static void two_forms_of_a_name_are_said_in_every_container(void **state) {
  static const char *const list[CLASSES] = {"ant", "caf\xC3\xA9", "cat", "cafe\xCC\x81", "dog"};
  char text[600], source[400];
  for (int i = 0; i < RECORDS; i++) id[i] = i * 7 % CLASSES;
  write_all();
  write_list("forms.txt", list);
  for (int k = 0; k < CONTAINERS; k++) {
    mr_diag_t d = {0};
    named_source(k, "forms.txt", source);
    snprintf(text, sizeof text, "%s ! batch 4 name=b ! watch", source);
    mr_graph_t *g = mr_graph_create(stages_here());
    *heard = 0;
    mr_notice_to(hear_notice, NULL);
    if (mr_graph_parse(g, text, NULL, 0, &d) < 0 || mr_graph_settle(g, &d) < 0)
      fail_msg("%s: %s", text, d.text);
    mr_notice_to(NULL, NULL);
    if (!strstr(heard, "forms.txt: classes 1 and 3 are one name, "))
      fail_msg("%s: said \"%s\"", text, heard);
    const mr_spec_t *spec = &mr_graph_stage(g, "b")->out_spec[0];
    assert_int_equal(spec->field[0].classes->n, CLASSES);
    assert_string_equal(spec->field[0].classes->name[3], list[3]);
    mr_graph_destroy(g);
  }
}

/* Settles a graph over one safetensors file; what it says is in heard, and its failure in *diag. */
static mr_err_t settle_labels(mr_dtype_t dtype, int ndim, const char *fields, bool *label,
                              mr_diag_t *diag) {
  static const double zeros[2 * RECORDS];
  mr_st_tensor_t t = {
      .name = "label", .dtype = dtype, .ndim = ndim, .dim = {RECORDS, 2}, .data = zeros};
  char text[400];
  if (mr_safetensors_write(in_folder("labels.safetensors"), &t, 1, NULL, 0, diag) < 0)
    fail_msg("%s", diag->text);
  snprintf(text, sizeof text, "safetensors %s/labels.safetensors%s name=s ! batch 4 ! watch",
           folder, fields);
  mr_graph_t *g = mr_graph_create(stages_here());
  *heard = 0;
  mr_notice_to(hear_notice, NULL);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, diag);
  if (e >= 0) e = mr_graph_settle(g, diag);
  mr_notice_to(NULL, NULL);
  *label = e >= 0 && mr_spec_label(&mr_graph_stage(g, "s")->out_spec[0]) == 0;
  mr_graph_destroy(g);
  return e;
}

static void a_label_is_one_whole_number_or_it_is_said(void **state) {
  static const struct {
    mr_dtype_t dtype;
    int ndim;
    const char *what; /* NULL: a label */
  } row[] = {{MR_U8, 1, NULL},     {MR_I32, 1, NULL},    {MR_U64, 1, NULL},
             {MR_F64, 1, "f64[]"}, {MR_F16, 1, "f16[]"}, {MR_BOOL, 1, "bool[]"},
             {MR_I64, 2, "i64[2]"}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    mr_diag_t diag = {0};
    bool label;
    assert_int_equal(settle_labels(row[i].dtype, row[i].ndim, "", &label, &diag), MR_OK);
    assert_int_equal(label, !row[i].what);
    if (row[i].what ? !strstr(heard, row[i].what) || !strstr(heard, "is no label") : *heard)
      fail_msg("%s: said \"%s\"", row[i].what ? row[i].what : "a label", heard);
    mr_err_t e =
        settle_labels(row[i].dtype, row[i].ndim, " fields=label:label:label", &label, &diag);
    assert_int_equal(e, row[i].what ? MR_ERR_CONFIG : MR_OK);
    if (row[i].what && !strstr(diag.text, "want one whole number in each record"))
      fail_msg("%s", diag.text);
    assert_int_equal(settle_labels(row[i].dtype, row[i].ndim, " fields=label:y", &label, &diag),
                     MR_OK);
    assert_string_equal(heard, "");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_ledger_from_every_container),
      cmocka_unit_test(classes_of_every_container_meet_by_name),
      cmocka_unit_test(two_forms_of_a_name_are_said_in_every_container),
      cmocka_unit_test(a_label_is_one_whole_number_or_it_is_said)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
