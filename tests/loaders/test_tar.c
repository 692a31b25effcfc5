/* The stage tar: random archives in every dialect against what was written, in random bursts; and
   archives that lie. */
#include <dirent.h>

#include "base/npy.h"
#include "pipeline/care.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_tar;

static bool memory_is_out; /* for headers of arrays */
mr_err_t __real_mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out,
                              size_t *offset, mr_diag_t *diag);
mr_err_t __wrap_mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out,
                              size_t *offset, mr_diag_t *diag);
mr_err_t __wrap_mr_npy_header(const char *path, const void *file, size_t n, mr_npy_t *out,
                              size_t *offset, mr_diag_t *diag) {
  if (memory_is_out) return mr_no_memory(diag, "the header of %s", path);
  return __real_mr_npy_header(path, file, n, out, offset, diag);
}

enum { SAMPLES = 60, EXTS = 4, SHARDS = 3, MEMBER_MOST = 3000 };

static const char *const ext[EXTS] = {"jpg", "cls", "seg.png", "json"};

/* ---- writing archives ---- */

static void put_octal(char *to, int n, uint64_t v) {
  snprintf(to, (size_t)n, "%0*llo", n - 1, (unsigned long long)v);
}

static void put_sum(uint8_t *h) {
  unsigned sum = 0;
  memset(h + 148, ' ', 8);
  for (int i = 0; i < 512; i++) sum += h[i];
  snprintf((char *)h + 148, 7, "%06o", sum);
}

/* Adds a header of this name (at most 99 bytes), type and size; prefix may be NULL. */
static size_t add_header(image_t *o, const char *name, const char *prefix, char type, uint64_t size,
                         bool base256) {
  uint8_t *h = image_add(o, NULL, 512);
  snprintf((char *)h, 100, "%s", name);
  memcpy(h + 100, "0000644", 8);
  put_octal((char *)h + 124, 12, base256 ? 0 : size);
  for (int i = 0; base256 && i < 12; i++)
    h[124 + i] = i ? (uint8_t)(i < 4 ? 0 : size >> 8 * (11 - i)) : 0x80;
  put_octal((char *)h + 136, 12, 0);
  h[156] = (uint8_t)type;
  memcpy(h + 257,
         prefix ? "ustar\0"
                  "00"
                : "ustar  ",
         8);
  if (prefix) snprintf((char *)h + 345, 155, "%s", prefix);
  put_sum(h);
  return (size_t)(h - o->at);
}

static void add_body(image_t *o, const void *data, size_t n) {
  image_add(o, data, n);
  image_add(o, NULL, (512 - n % 512) % 512);
}

static void add_pax(image_t *o, const char *name, size_t size) {
  char row[2][600];
  int all = 0;
  for (int k = 0; k < 2; k++) {
    char value[560];
    if (k)
      snprintf(value, sizeof value, "size=%zu", size);
    else
      snprintf(value, sizeof value, "path=%s", name);
    int n = (int)strlen(value) + 3;
    n += n + 1 >= 100 ? 1 : 0, n += n + 1 >= 10 ? 1 : 0;
    for (int len = n - 2; len < n + 4; len++)
      if (snprintf(row[k], sizeof row[k], "%d %s\n", len, value) == len) break;
    all += (int)strlen(row[k]);
  }
  add_header(o, "PaxHeaders/x", "", 'x', (uint64_t)all, false);
  image_add(o, row[0], strlen(row[0]));
  image_add(o, row[1], strlen(row[1]));
  image_add(o, NULL, (size_t)(512 - all % 512) % 512);
}

/* A member in one of the dialects. */
static void add_member(round_t *r, image_t *o, const char *name, const void *data, size_t n) {
  size_t len = strlen(name);
  switch (draw(r, 4)) {
    case 0: /* GNU's long name, in front of a short wrong one */
      add_header(o, "././@LongLink", NULL, 'L', len + 1, false);
      add_body(o, name, len + 1);
      add_header(o, "cut", NULL, '0', n, one_in(r, 2));
      break;
    case 1:
      add_pax(o, name, n);
      add_header(o, "cut", "", '0', 0, false);
      break;
    case 2: { /* ustar's prefix, where the name has a slash that allows it */
      const char *slash = strrchr(name, '/');
      char prefix[155];
      if (slash && slash > name && slash - name < 150 && strlen(slash + 1) < 99) {
        snprintf(prefix, sizeof prefix, "%.*s", (int)(slash - name), name);
        add_header(o, slash + 1, prefix, '0', n, false);
        break;
      }
    } /* fall through */
    default:
      if (len > 99) {
        add_pax(o, name, n);
        add_header(o, "cut", "", '0', n, false);
      } else {
        add_header(o, name, NULL, one_in(r, 3) ? '\0' : '0', n, one_in(r, 5));
      }
  }
  add_body(o, data, n);
}

/* What a reader must pass over. */
static void add_noise(round_t *r, image_t *o) {
  switch (draw(r, 6)) {
    case 0: add_header(o, "a/", NULL, '5', 0, false); break;
    case 1: add_header(o, "link.jpg", NULL, '1', 0, false); break;
    case 2: add_header(o, "link.jpg", NULL, '2', 0, false); break;
    case 3: add_header(o, "README", NULL, '0', 3, false), add_body(o, "abc", 3); break;
    case 4: add_header(o, "dir/._x.jpg", NULL, '0', 3, false), add_body(o, "abc", 3); break;
    default: add_header(o, "__meta__/x.jpg", NULL, '0', 3, false), add_body(o, "abc", 3);
  }
}

/* ---- the oracle ---- */

typedef struct sample {
  char key[400];
  bool has[EXTS];
  size_t size[EXTS];
  uint8_t *data[EXTS];
} sample_t;

static sample_t sample[SAMPLES];
static int n_samples;

static void make_sample(round_t *r, int i) {
  sample_t *p = &sample[i];
  for (int e = 0; e < EXTS; e++) free(p->data[e]), p->data[e] = NULL;
  int at = 0;
  for (int d = draw(r, 4); d > 0; d--)
    at += snprintf(
        p->key + at, 100, "%.*s/", 1 + draw(r, 80),
        "a_folder_with_a_rather_long_name_that_no_short_header_can_hold_and_some_more_of_it_here");
  snprintf(p->key + at, 40, "k%d", i);
  p->has[0] = p->has[1] = true;
  p->has[2] = one_in(r, 2), p->has[3] = one_in(r, 2);
  for (int e = 0; e < EXTS; e++) {
    p->size[e] = (size_t)draw(r, MEMBER_MOST);
    p->data[e] = malloc(MEMBER_MOST);
    assert_non_null(p->data[e]);
    for (size_t k = 0; k < p->size[e]; k++) p->data[e][k] = (uint8_t)round_bits(r);
    if (e == 1) p->size[e] = (size_t)sprintf((char *)p->data[e], "%d\n", i % 7);
  }
}

/* Writes the samples into files; returns how many files. */
static int write_archives(round_t *r) {
  int shards = 1 + draw(r, SHARDS);
  n_samples = shards + draw(r, SAMPLES - shards);
  int done = 0;
  for (int k = 0; k < shards; k++) {
    image_t o = {0};
    int end = k == shards - 1 ? n_samples : n_samples * (k + 1) / shards;
    for (; done < end; done++) {
      make_sample(r, done);
      int order[EXTS] = {0, 1, 2, 3};
      for (int e = EXTS - 1; e > 0; e--) {
        int other = draw(r, e + 1), was = order[e];
        order[e] = order[other], order[other] = was;
      }
      for (int e = 0; e < EXTS; e++) {
        char name[500];
        sample_t *p = &sample[done];
        if (one_in(r, 6)) add_noise(r, &o);
        if (!p->has[order[e]]) continue;
        snprintf(name, sizeof name, "%s.%s", p->key, ext[order[e]]);
        if (one_in(r, 4)) name[strlen(name) - 1] -= 32; /* an extension in capitals */
        add_member(r, &o, name, p->data[order[e]], p->size[order[e]]);
      }
    }
    if (!one_in(r, 4)) image_add(&o, NULL, 1024);
    char name[32];
    snprintf(name, sizeof name, "s-%d.tar", k);
    write_file(name, o.at, o.n);
    free(o.at);
  }
  return shards;
}

static void check_record(const round_t *r, const mr_rec_t *rec, int64_t i) {
  const sample_t *p = &sample[i];
  const mr_value_t *v = rec->field;
  round_check(r, rec->key == (uint64_t)i + 5, "key %llu", (unsigned long long)rec->key);
  round_check(r, v[0].rows == (int64_t)p->size[0] && !memcmp(v[0].data, p->data[0], p->size[0]),
              "picture %d", (int)i);
  round_check(r, *(int32_t *)v[1].data == i % 7, "label %d", (int)i);
  round_check(r, v[2].rows == (int64_t)strlen(p->key) && !memcmp(v[2].data, p->key, strlen(p->key)),
              "name %d", (int)i);
}

static void random_archives_are_read_as_written(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    char files[200];
    hand_t h;
    int shards = write_archives(&r);
    snprintf(files, sizeof files, "files=%s/s-{0..%d}.tar", folder, shards - 1);
    if (shards == 1) snprintf(files, sizeof files, "files=%s/s-0.tar", folder);
    mr_err_t e =
        shards_plan(&h, &mr_stage_tar,
                    HAND_SETTINGS(files, "fields=jpg:image,cls:label,__key__:name", "id-base=5",
                                  "classes=7", one_in(&r, 2) ? "index=beside" : "index=auto"));
    round_check(&r, e >= 0, "%s", h.diag.text);
    round_check(&r, h.s.out_spec[0].n_records == n_samples, "%d", (int)h.s.out_spec[0].n_records);
    round_check(&r, mr_stage_tar.open(&h.s) >= 0, "%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    for (int k = 0; k < 20; k++) {
      int64_t index[MR_BURST];
      int n = 1 + draw(&r, MR_BURST);
      for (int i = 0; i < n; i++) index[i] = draw(&r, n_samples);
      if (one_in(&r, 2)) mr_stage_tar.source->ahead(&h.s, 0, index, n);
      round_check(&r, burst_fetch(&h, draw(&r, 3), index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++) check_record(&r, &b->rec[i], index[i]);
    }
    burst_free(b);
    shards_close(&h);
  }
  for (int i = 0; i < SAMPLES; i++)
    for (int e = 0; e < EXTS; e++) free(sample[i].data[e]), sample[i].data[e] = NULL;
}

/* ---- archives and settings that are refused ---- */

static void add_sample(image_t *o, const char *key, const char *label) {
  char name[64];
  snprintf(name, sizeof name, "%s.jpg", key);
  add_header(o, name, NULL, '0', 5, false), add_body(o, "12345", 5);
  snprintf(name, sizeof name, "%s.cls", key);
  add_header(o, name, NULL, '0', strlen(label), false), add_body(o, label, strlen(label));
}

/* One archive with the samples a and b, and what `harm` does behind them. */
static void write_harmed(int harm) {
  image_t o = {0};
  add_sample(&o, "a", "1"), add_sample(&o, "b", "2");
  size_t h = 0;
  switch (harm) {
    case 0: memset(image_add(&o, NULL, 512), 'x', 512); break;
    case 1: add_header(&o, "c.jpg", NULL, '0', 5000, false), add_body(&o, "cut", 3); break;
    case 2:
      h = add_header(&o, "c.jpg", NULL, '0', 0, true), memset(o.at + h + 124, 0x7F, 12);
      o.at[h + 124] = 0xFF, put_sum(o.at + h);
      break;
    case 3:
      h = add_header(&o, "c.jpg", NULL, '0', 0, false), memcpy(o.at + h + 124, "-0000000005", 12);
      put_sum(o.at + h);
      break;
    case 4: add_header(&o, "b.jpg", NULL, '0', 2, false), add_body(&o, "ab", 2); break;
    case 5: add_header(&o, "c.jpg", NULL, 'S', 2, false), add_body(&o, "ab", 2); break;
    case 6: add_header(&o, "x", "", 'x', 11, false), add_body(&o, "99 path=abc\n", 12); break;
    case 7: add_header(&o, "x", "", 'x', 1 << 21, false), image_add(&o, NULL, 1 << 21); break;
    case 8: image_add(&o, NULL, 100), o.at[o.n - 1] = 1; break;
    case 9: h = add_header(&o, "c.jpg", NULL, '0', 0, false), o.at[h] ^= 1; break;
    case 10:
      add_header(&o, "x", "", 'x', 22, false), add_body(&o, "22 GNU.sparse.major=1\n", 22);
      break;
    case 11: image_add(&o, NULL, 1024), add_sample(&o, "c", "3"); break; /* joined archives */
    case 12: image_add(&o, NULL, 512), add_sample(&o, "c", "3"); break;  /* a hole */
    default:
      add_header(&o, "x", NULL, 'L', 5000, false), memset(image_add(&o, NULL, 5120), 'n', 5120);
  }
  write_file("harmed.tar", o.at, o.n);
  free(o.at);
}

static const char *const harmed_piece[] = {
    "no tar header at byte 4096",
    "the archive is cut short",
    "the archive is cut short or damaged",
    "the archive is cut short or damaged",
    "a second member b.jpg",
    "holds a sparse member",
    "pax header at byte 4096 is damaged",
    "a header of 2097152 bytes",
    "ends within a header",
    "no tar header at byte 4096",
    "holds a sparse member",
    "continues at byte 5120 behind its end mark at byte 4096",
    "continues at byte 4608 behind its end mark at byte 4096",
    "a name of 5000 bytes"};

static void damaged_archives_are_refused_by_file_and_byte(void **state) {
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("harmed.tar"));
  for (int harm = 0; harm < 14; harm++) {
    write_harmed(harm);
    want_refused(&mr_stage_tar, HAND_SETTINGS(files, "fields=jpg:image,cls:label"),
                 harmed_piece[harm]);
    /* on the second try the index says so */
    want_refused(&mr_stage_tar, HAND_SETTINGS(files, "fields=jpg:image,cls:label"),
                 harmed_piece[harm]);
  }
}

static void records_before_the_damage_are_used_if_bad_ones_may_be(void **state) {
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("harmed.tar"));
  for (int harm = 0; harm < 14; harm++) {
    hand_t h;
    write_harmed(harm);
    n_notices = 0;
    h = (hand_t){.s = {.def = &mr_stage_tar, .name = "tar", .n_workers = 1}};
    if (shards_plan(&h, &mr_stage_tar, HAND_SETTINGS(files, "fields=jpg:image,cls:label")) >= 0)
      fail_msg("taken without on-bad");
    mr_care_t *care = (mr_care_t *)((char *)h.s.state + mr_stage_tar.source->care);
    if (mr_stage_tar.forget) mr_stage_tar.forget(&h.s);
    care->lenient = true;
    h.diag = (mr_diag_t){0};
    if (mr_stage_tar.plan(&h.s) < 0) fail_msg("%d: %s", harm, h.diag.text);
    assert_int_equal(h.s.out_spec[0].n_records, 2);
    assert_int_equal(n_notices, 1);
    assert_true(mr_stage_tar.open(&h.s) >= 0);
    burst_t *b = burst_new(&h.s);
    int64_t index[] = {1, 0};
    if (burst_fetch(&h, 0, index, 2, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[1].data, 2);
    burst_free(b);
    shards_close(&h);
  }
}

static void samples_that_lack_a_member_or_hold_no_number_fail_their_fetch(void **state) {
  static const struct {
    const char *label, *piece;
  } row[] = {{"1x", "holds \"1x\", want a whole number"},
             {"", "want a whole number"},
             {"10", "label 10 is not in [0,9]"},
             {"-1", "label -1 is not in [0,9]"},
             {"99999999999999999999", "want a whole number"}};
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("label.tar"));
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    image_t o = {0};
    hand_t h;
    add_sample(&o, "good", " 3\n"), add_sample(&o, "bad", row[i].label);
    add_header(&o, "none.jpg", NULL, '0', 1, false), add_body(&o, "j", 1);
    write_file("label.tar", o.at, o.n);
    free(o.at);
    if (hand_open(&h, &mr_stage_tar, NULL,
                  HAND_SETTINGS(files, "fields=jpg:image,cls:label", "classes=10")) < 0)
      fail_msg("%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    int64_t index[] = {0, 1, 2};
    assert_int_equal(burst_fetch(&h, 0, index, 1, b), MR_OK);
    assert_int_equal(*(int32_t *)b->rec[0].field[1].data, 3);
    assert_int_equal(burst_fetch(&h, 0, index, 2, b), MR_ERR_DATA);
    if (!strstr(h.diag.text, row[i].piece) || !strstr(h.diag.text, "record 1, bad"))
      fail_msg("%s", h.diag.text);
    assert_int_equal(burst_fetch(&h, 0, index + 2, 1, b), MR_ERR_DATA);
    assert_non_null(strstr(h.diag.text, "member .cls is missing"));
    burst_free(b);
    shards_close(&h);
  }
}

static void labels_may_be_names(void **state) {
  static const char list[] = "bee\ncaf\xC3\xA9\nants\nant\n";
  static const char *const label[] = {" cafe\xCC\x81\n", "ant", "2", "caf\xC3\xA9", "an"};
  static const int want[] = {1, 3, 2, 1};
  char files[120], names[120], key[2] = "a";
  image_t o = {0};
  hand_t h;
  for (int i = 0; i < 5; i++, ++*key) add_sample(&o, key, label[i]);
  write_file("named.tar", o.at, o.n), write_file("names.txt", list, strlen(list));
  free(o.at);
  snprintf(files, sizeof files, "files=%s", in_folder("named.tar"));
  snprintf(names, sizeof names, "names=%s", in_folder("names.txt"));
  if (hand_open(&h, &mr_stage_tar, NULL,
                HAND_SETTINGS(files, "fields=jpg:image,cls:label", names)) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 4; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[1].data, want[i]);
  }
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){4}, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "holds \"an\", want a whole number or one of the names"));
  burst_free(b), shards_close(&h);
}

/* The longest names in a list, and their longest forms: Hangul taken apart, and a Greek letter with
   the sign that is one with its iota. */
static void labels_may_be_names_in_forms_of_several_times_their_bytes(void **state) {
  static const struct {
    const char *name, *form;
    int n;
  } of[] = {{"\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", 42},
            {"\xCE\x90", "\xE1\xBE\xBE\xCC\x88\xCC\x81", 63}};
  char list[400] = "", label[2][600] = {"", ""}, files[120], names[120], key[2] = "a";
  image_t o = {0};
  hand_t h;
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < of[i].n; k++) strcat(list, of[i].name), strcat(label[i], of[i].form);
    strcat(list, "\n");
    add_sample(&o, key, label[i]), ++*key;
  }
  char longer[700] = "b"; /* a name that is none, longer than any form of one */
  for (int i = 0; i < 600; i++) strcat(longer, "b");
  add_sample(&o, key, longer);
  write_file("forms.tar", o.at, o.n), write_file("names.txt", list, strlen(list));
  free(o.at);
  snprintf(files, sizeof files, "files=%s", in_folder("forms.tar"));
  snprintf(names, sizeof names, "names=%s", in_folder("names.txt"));
  if (hand_open(&h, &mr_stage_tar, NULL,
                HAND_SETTINGS(files, "fields=jpg:image,cls:label", names)) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  for (int64_t i = 0; i < 2; i++) {
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(*(int32_t *)b->rec[0].field[1].data, i);
  }
  assert_int_equal(burst_fetch(&h, 0, (int64_t[]){2}, 1, b), MR_ERR_DATA);
  burst_free(b), shards_close(&h);
}

static void wrong_settings_are_refused(void **state) {
  image_t o = {0};
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("plain.tar"));
  add_sample(&o, "a", "1");
  write_file("plain.tar", o.at, o.n);
  write_file("empty.tar", o.at, 0);
  memset(o.at, 0, 1024), write_file("none.tar", o.at, 1024);
  memcpy(o.at, "\x1f\x8b\x08", 3), write_file("packed.tar", o.at, 2048);
  free(o.at);
#define WRONG(piece, ...) want_refused(&mr_stage_tar, HAND_SETTINGS(__VA_ARGS__), piece)
  WRONG("setting files must be given", "holdout=0");
  WRONG("no member is called .txt; the members of", files, "fields=txt:text");
  WRONG("cls as xyz: want bytes, label", files, "fields=cls:label:xyz");
  WRONG("want MEMBER, MEMBER:FIELD", files, "fields=cls:9");
  WRONG("want MEMBER, MEMBER:FIELD", files, "fields=");
  WRONG("two fields would be called image", files, "fields=jpg,cls:image");
  WRONG("__key__ as int: want bytes", files, "fields=__key__:key:int");
  WRONG("cannot be opened", "files=/nowhere/x.tar");
  WRONG("is empty", "files=a::");
  WRONG("want a range", "files=a{1..2");
  WRONG("want a range", "files=a}");
  WRONG("want a range", "files=a{x}");
  WRONG("more than 65536 files", "files=a{0..99999999}");
  WRONG("more than 65536 files", "files=a{0..9999}{0..9999}");
  snprintf(files, sizeof files, "files=%s", in_folder("empty.tar"));
  WRONG("ends within a header at byte 0", files);
  snprintf(files, sizeof files, "files=%s", in_folder("none.tar"));
  WRONG("no records", files);
  snprintf(files, sizeof files, "files=%s", in_folder("packed.tar"));
  WRONG("is compressed by gzip", files);
}

/* An index that names a member whose parts it gives to another. */
static void an_index_with_a_member_of_no_sample_is_refused(void **state) {
  image_t o = {0};
  char files[120];
  mr_shard_index_t x;
  mr_shard_id_t id;
  snprintf(files, sizeof files, "files=%s", in_folder("forged.tar"));
  add_header(&o, "a.npy", NULL, '0', 1, false), add_body(&o, "1", 1);
  add_header(&o, "a.cls", NULL, '0', 1, false), add_body(&o, "2", 1);
  write_file("forged.tar", o.at, o.n);
  free(o.at);
  want_refused(&mr_stage_tar, HAND_SETTINGS(files, "index=beside", "fields=npy"),
               "forged.tar: member .npy: array: not an .npy file"); /* it makes the index */
  FILE *f = fopen(in_folder("forged.tar"), "rb");
  assert_int_equal(mr_shard_id_of(fileno(f), "forged.tar", &id, NULL), MR_OK);
  assert_int_equal(mr_shard_id_for_index(fileno(f), "forged.tar", &id, NULL), MR_OK);
  fclose(f);
  assert_int_equal(mr_shard_index_load(in_folder("forged.tar.mrindex"), "tar/5", &id, MR_KEPT_INDEX,
                                       NULL, &x, NULL),
                   MR_OK);
  for (uint32_t c = 0; c < x.n_columns; c++)
    if (!strcmp(x.text + x.column[c].name, "cls"))
      for (int i = 0; i < 2; i++) ((mr_shard_part_t *)x.part)[i].column = c;
  seal_index(&x);
  assert_int_equal(mr_shard_index_save(&x, in_folder("forged.tar.mrindex"), NULL, NULL), MR_OK);
  mr_shard_index_close(&x);
  want_refused(&mr_stage_tar, HAND_SETTINGS(files, "index=beside"), "has its member .npy");
}

static void plan_archive(image_t *o, const char *name, const char *fields) {
  char files[120];
  hand_t h;
  snprintf(files, sizeof files, "files=%s", in_folder(name));
  write_file(name, o->at, o->n);
  *last_notice = 0;
  shards_plan(&h, &mr_stage_tar, fields ? HAND_SETTINGS(files, fields) : HAND_SETTINGS(files));
  shards_close(&h);
  free(o->at);
}

/* Old programs summed the bytes of a header as signed ones, which shows in names beyond ASCII. */
static void sums_of_signed_bytes_are_right(void **state) {
  image_t o = {0};
  char files[120];
  hand_t h;
  add_header(&o, "a\xC3\xA9.cls", NULL, '0', 1, false);
  int64_t sum = 8 * ' ';
  for (int i = 0; i < 512; i++)
    if (i < 148 || i >= 156) sum += (int8_t)o.at[i];
  put_octal((char *)o.at + 148, 8, sum);
  add_body(&o, "7", 1), image_add(&o, NULL, 1024);
  write_file("signed.tar", o.at, o.n);
  o.at[148 + 6] ^= 1; /* another digit */
  write_file("wrong.tar", o.at, o.n);
  free(o.at);
  snprintf(files, sizeof files, "files=%s", in_folder("signed.tar"));
  if (shards_plan(&h, &mr_stage_tar, HAND_SETTINGS(files)) < 0) fail_msg("%s", h.diag.text);
  shards_close(&h);
  snprintf(files, sizeof files, "files=%s", in_folder("wrong.tar"));
  want_refused(&mr_stage_tar, HAND_SETTINGS(files), "no tar header at byte 0");
}

/* The members ".one" and ".other" of one sample. */
static const char *notice_of_two(const char *one, const char *other) {
  image_t o = {0};
  char name[40];
  snprintf(name, sizeof name, "a.%s", one);
  add_header(&o, name, NULL, '0', 1, false), add_body(&o, "1", 1);
  snprintf(name, sizeof name, "a.%s", other);
  add_header(&o, name, NULL, '0', 1, false), add_body(&o, "2", 1);
  image_add(&o, NULL, 10240 - o.n);
  plan_archive(&o, "two.tar", NULL);
  return last_notice;
}

static void files_of_one_kind_in_a_sample_are_said(void **state) {
  const char *said = "are fields of one sample, as a name is cut at its first dot";
  assert_non_null(strstr(notice_of_two("v0.jpg", "v1.jpg"), "members .v0.jpg and .v1.jpg are fie"));
  assert_non_null(strstr(notice_of_two("jpg", "v1.jpg"), said));
  assert_non_null(strstr(notice_of_two("seg.v1.jpg", "jpg"), said));
  assert_string_equal(notice_of_two("jpg", "seg.png"), "");
  assert_string_equal(notice_of_two("jpg", "cls2"), "");
}

static void archives_that_may_lack_samples_are_said(void **state) {
  image_t o = {0};
  add_sample(&o, "a", "1");
  plan_archive(&o, "no-mark.tar", NULL);
  assert_non_null(strstr(last_notice, "has no end mark"));
  o = (image_t){0};
  add_sample(&o, "a", "1"), image_add(&o, NULL, 20480);
  plan_archive(&o, "zeros.tar", NULL);
  assert_non_null(strstr(last_notice, "its last 20480 bytes are zeros"));
  *last_notice = 0; /* the index knows it too */
  char files[120];
  hand_t h;
  snprintf(files, sizeof files, "files=%s", in_folder("zeros.tar"));
  assert_int_equal(shards_plan(&h, &mr_stage_tar, HAND_SETTINGS(files)), MR_OK);
  shards_close(&h);
  assert_non_null(strstr(last_notice, "zeros.tar: its last 20480 bytes are zeros"));
  o = (image_t){0};
  add_sample(&o, "a", "1"), image_add(&o, NULL, 512);
  plan_archive(&o, "half.tar", NULL);
  assert_non_null(strstr(last_notice, "half.tar: has half an end mark"));
  o = (image_t){0};
  add_sample(&o, "a", "1"), add_header(&o, "d/README", NULL, '0', 1, false), add_body(&o, "1", 1);
  add_header(&o, "b.jpg", NULL, 'Z', 0, false), image_add(&o, NULL, 1024);
  plan_archive(&o, "plain.tar", NULL);
  assert_non_null(strstr(last_notice, "\"README\" (a name without an extension is of no sample)"));
  assert_non_null(strstr(last_notice, "\"jpg\" (a sample has it as a member of an unknown type)"));
  o = (image_t){0};
  add_sample(&o, "a", "1"), image_add(&o, NULL, 10240 - o.n);
  plan_archive(&o, "padded.tar", NULL);
  assert_string_equal(last_notice, "");
  o = (image_t){0};
  add_header(&o, "a.jpg", NULL, '0', 1, false), add_body(&o, "1", 1);
  add_header(&o, "b.jpg", NULL, '0', 1, false), add_body(&o, "1", 1);
  add_header(&o, "a.cls", NULL, '0', 1, false), add_body(&o, "1", 1);
  image_add(&o, NULL, 1024);
  plan_archive(&o, "apart.tar", "fields=jpg:image,cls:label");
  assert_non_null(strstr(last_notice, "the members of sample a do not follow each other"));
  o = (image_t){0};
  add_sample(&o, "a", "1"), add_sample(&o, "c", "1"), add_sample(&o, "d/b", "1");
  add_sample(&o, "b", "1"), add_sample(&o, "a", "2"), add_sample(&o, "c", "2");
  image_add(&o, NULL, 1024);
  plan_archive(&o, "same.tar", NULL);
  assert_non_null(strstr(last_notice, "same.tar: records 0 and 4 are two samples of one key, a, "));
  o = (image_t){0};
  add_sample(&o, "a", "1"), add_sample(&o, "d/a", "1"), add_sample(&o, "A", "1");
  image_add(&o, NULL, 1024);
  plan_archive(&o, "other.tar", NULL);
  assert_string_equal(last_notice, "");
  o = (image_t){0};
  add_sample(&o, "a", "1"), add_header(&o, "b.cls", NULL, '0', 1, false), add_body(&o, "1", 1);
  add_header(&o, "b.jpg", NULL, '1', 0, false), image_add(&o, NULL, 1024);
  plan_archive(&o, "link.tar", "fields=jpg:image,cls:label");
  assert_non_null(strstr(last_notice, "\"jpg\" (a sample has it as a hard link"));
  for (const char *type = "346"; *type; type++) {
    o = (image_t){0};
    add_sample(&o, "a", "1"), add_header(&o, "b.cls", NULL, '0', 1, false), add_body(&o, "1", 1);
    add_header(&o, "b.jpg", NULL, *type, 0, false), image_add(&o, NULL, 1024);
    plan_archive(&o, "node.tar", NULL);
    assert_non_null(strstr(last_notice, *type == '6' ? "(a sample has it as a pipe, without"
                                                     : "(a sample has it as a device, without"));
  }
}

/* An array that becomes no field does not keep the other members from being read. */
static void an_array_that_becomes_no_field_is_named(void **state) {
  static const struct {
    const char *type, *shape, *why;
  } of[] = {{"<c8", "(1,)", "(array: its type is '<c8', want b1 u1"},
            {"|O", "(1,)", "(array: its type is '|O', want b1 u1"},
            {"<U3", "(1,)", "(array: its type is '<U3', want b1 u1"},
            {"<f4", "(0, 2)", "(array: it has 2 dimensions and 0 elements, want at most"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    image_t o = {0};
    char array[128] = "\x93NUMPY\x01\x00\x76\x00", files[120];
    hand_t h;
    memset(array + 10, ' ', 118);
    int n = snprintf(array + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                     of[i].type, of[i].shape);
    array[10 + n] = ' ', array[127] = '\n';
    add_sample(&o, "a", "1");
    add_header(&o, "a.npy", NULL, '0', 128, false), add_body(&o, array, 128);
    image_add(&o, NULL, 1024);
    plan_archive(&o, "arrays.tar", "fields=jpg:image,cls:label");
    assert_string_equal(last_notice, "");
    snprintf(files, sizeof files, "files=%s", in_folder("arrays.tar"));
    if (shards_plan(&h, &mr_stage_tar, HAND_SETTINGS(files)) < 0) fail_msg("%s", h.diag.text);
    assert_int_equal(h.s.out_spec[0].n_fields, 2);
    shards_close(&h);
    if (!strstr(last_notice, of[i].why)) fail_msg("%s, want %s", last_notice, of[i].why);
    want_refused(&mr_stage_tar, HAND_SETTINGS(files, "fields=npy"), of[i].why + 1);
    want_refused(&mr_stage_tar, HAND_SETTINGS(files, "fields=npy"), "arrays.tar: member .npy: ");
  }
}

/* The first archive has no array, and that of the second becomes no field. */
static void the_archive_with_an_array_that_becomes_no_field_is_named(void **state) {
  image_t o = {0}, second = {0};
  char files[120];
  add_sample(&o, "a", "1"), image_add(&o, NULL, 1024);
  write_file("array-0.tar", o.at, o.n);
  add_sample(&second, "b", "2");
  add_header(&second, "b.npy", NULL, '0', 1, false), add_body(&second, "1", 1);
  image_add(&second, NULL, 1024);
  write_file("array-1.tar", second.at, second.n);
  free(o.at), free(second.at);
  snprintf(files, sizeof files, "files=%s", in_folder("array-{0..1}.tar"));
  want_refused(&mr_stage_tar, HAND_SETTINGS(files, "fields=npy"),
               "array-1.tar: member .npy: array: not an .npy file");
}

/* Without memory for its header nothing is known of an array: it is not left out. */
static void an_array_without_memory_is_not_left_out(void **state) {
  image_t o = {0};
  char files[120];
  hand_t h;
  add_sample(&o, "a", "1");
  add_header(&o, "a.npy", NULL, '0', 1, false), add_body(&o, "1", 1);
  image_add(&o, NULL, 1024);
  write_file("memory.tar", o.at, o.n);
  free(o.at);
  snprintf(files, sizeof files, "files=%s", in_folder("memory.tar"));
  memory_is_out = true;
  assert_int_equal(shards_plan(&h, &mr_stage_tar, HAND_SETTINGS(files)), MR_ERR_NOMEM);
  memory_is_out = false;
  shards_close(&h);
}

/* Header h of sample b's .cls in an archive of two such samples, changed in one way. */
static void change_header(uint8_t *h, int how) {
  switch (how) {
    case 0: h[0] = 'c', put_sum(h); break;              /* another sample's */
    case 1: memcpy(h + 2, "seg", 3), put_sum(h); break; /* another member */
    case 2: put_octal((char *)h + 124, 12, 2), put_sum(h); break;
    case 3: h[156] = '2', put_sum(h); break; /* a link */
    default: memset(h, 'x', 512);            /* another's contents */
  }
}

/* What was planned with an index is not what lies there when the record is read, though its size is
   the same. */
static void a_record_whose_header_has_changed_is_refused(void **state) {
  static const char *const piece[] = {"is of c.cls", "is of b.seg", "has 2 bytes, its index 1",
                                      "no header of a file", "no header of a file"};
  char files[120];
  snprintf(files, sizeof files, "files=%s", in_folder("moved.tar"));
  for (int how = 0; how < 5; how++) {
    image_t o = {0};
    hand_t h;
    int64_t index[] = {0, 1};
    add_sample(&o, "a", "1"), add_sample(&o, "b", "2");
    image_add(&o, NULL, 1024);
    size_t at = 0;
    write_file("moved.tar", o.at, o.n);
    if (hand_open(&h, &mr_stage_tar, NULL, HAND_SETTINGS(files, "fields=jpg:image,cls:label")) < 0)
      fail_msg("%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    assert_int_equal(burst_fetch(&h, 0, index, 2, b), MR_OK);
    for (; memcmp(o.at + at, "b.cls", 6) != 0; at += 512) continue;
    change_header(o.at + at, how);
    FILE *f = fopen(in_folder("moved.tar"), "r+b"); /* in place: the file that is open changes */
    assert_int_equal(fwrite(o.at, 1, o.n, f), o.n);
    fclose(f);
    assert_int_equal(burst_fetch(&h, 0, index, 1, b), MR_OK);
    assert_int_equal(burst_fetch(&h, 0, index + 1, 1, b), MR_ERR_DATA);
    if (!strstr(h.diag.text, piece[how]) || !strstr(h.diag.text, "since its index was made"))
      fail_msg("%s, want %s", h.diag.text, piece[how]);
    free(o.at);
    burst_free(b);
    shards_close(&h);
  }
}

/* ---- few descriptors ---- */

/* A lack of descriptors says nothing about a record: it is read all the same, or the fetch fails
   with a code that never means a bad record. */
static void records_are_read_as_long_as_one_file_can_be_opened(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    char files[200];
    hand_t h;
    int shards = write_archives(&r), more = draw(&r, 3);
    snprintf(files, sizeof files, "files=%s/s-%s.tar", folder,
             shards == 1   ? "0"
             : shards == 2 ? "{0..1}"
                           : "{0..2}");
    round_check(&r,
                hand_open(&h, &mr_stage_tar, NULL,
                          HAND_SETTINGS(files, "fields=jpg:image,cls:label,__key__:name",
                                        "id-base=5", "classes=7")) >= 0,
                "%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    int64_t index[MR_BURST];
    struct rlimit was = begin_shortage(more);
    for (int k = 0; k < 10; k++) {
      int n = 1 + draw(&r, MR_BURST);
      for (int i = 0; i < n; i++) index[i] = draw(&r, n_samples);
      if (one_in(&r, 2)) mr_stage_tar.source->ahead(&h.s, 0, index, n);
      mr_err_t e = burst_fetch(&h, draw(&r, 3), index, n, b);
      round_check(&r, e == (more ? MR_OK : MR_ERR_NOMEM), "%d files: %d %s", more, e, h.diag.text);
      round_check(&r, more || strstr(h.diag.text, "ulimit -n"), "%s", h.diag.text);
      for (int i = 0; i < n && more; i++) check_record(&r, &b->rec[i], index[i]);
    }
    end_shortage(was);
    round_check(&r, burst_fetch(&h, 0, index, 1, b) >= 0, "%s", h.diag.text);
    check_record(&r, &b->rec[0], index[0]);
    burst_free(b);
    shards_close(&h);
  }
}

static int open_descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  assert_non_null(d);
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* Reads the record of each of `shards` files and returns how many files are still open then; every
   further read of those needs no open. */
static int files_left_open(int shards) {
  char files[200];
  hand_t h;
  snprintf(files, sizeof files, "files=%s/many-{0..%d}.tar", folder, shards - 1);
  *last_notice = 0;
  if (hand_open(&h, &mr_stage_tar, NULL, HAND_SETTINGS(files, "fields=jpg:image,cls:label")) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  int before = open_descriptors();
  for (int64_t i = 0; i < shards; i++)
    if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
  int left = open_descriptors() - before;
  burst_free(b);
  shards_close(&h);
  return left;
}

static void as_many_shards_stay_open_as_the_descriptors_of_the_process_allow(void **state) {
  enum { FILES = 600, FEW = 256 };
  struct rlimit was, now;
  for (int i = 0; i < FILES; i++) {
    char name[32];
    image_t o = {0};
    add_sample(&o, "a", "1"), image_add(&o, NULL, 1024);
    snprintf(name, sizeof name, "many-%d.tar", i);
    write_file(name, o.at, o.n);
    free(o.at);
  }
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
  if (was.rlim_max < 4 * FILES) skip();
  now = was, now.rlim_cur = 4 * FILES;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
  assert_int_equal(files_left_open(FILES), FILES);
  assert_null(strstr(last_notice, "can be open"));
  now.rlim_cur = FEW;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
  assert_int_equal(files_left_open(FEW / 4 + 1), FEW / 4 + 1);
  assert_null(strstr(last_notice, "can be open"));
  assert_int_equal(files_left_open(FEW / 4 + 2), FEW / 4 + 1);
  assert_non_null(strstr(last_notice, "one of 66 files, of which 65 can be open at once"));
  assert_non_null(strstr(last_notice, "ulimit -n"));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_archives_are_read_as_written),
      cmocka_unit_test(damaged_archives_are_refused_by_file_and_byte),
      cmocka_unit_test(records_before_the_damage_are_used_if_bad_ones_may_be),
      cmocka_unit_test(samples_that_lack_a_member_or_hold_no_number_fail_their_fetch),
      cmocka_unit_test(labels_may_be_names),
      cmocka_unit_test(labels_may_be_names_in_forms_of_several_times_their_bytes),
      cmocka_unit_test(wrong_settings_are_refused),
      cmocka_unit_test(sums_of_signed_bytes_are_right),
      cmocka_unit_test(an_array_that_becomes_no_field_is_named),
      cmocka_unit_test(the_archive_with_an_array_that_becomes_no_field_is_named),
      cmocka_unit_test(an_array_without_memory_is_not_left_out),
      cmocka_unit_test(files_of_one_kind_in_a_sample_are_said),
      cmocka_unit_test(archives_that_may_lack_samples_are_said),
      cmocka_unit_test(an_index_with_a_member_of_no_sample_is_refused),
      cmocka_unit_test(a_record_whose_header_has_changed_is_refused),
      cmocka_unit_test(records_are_read_as_long_as_one_file_can_be_opened),
      cmocka_unit_test(as_many_shards_stay_open_as_the_descriptors_of_the_process_allow),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
