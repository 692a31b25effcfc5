/* The stage tokens: random files of every format, windows of every kind, against a plain oracle
   over the row of all tokens; and files that lie. */
#include "base/crc32c.h"
#include "tests/loaders/shards.h"

extern const mr_stage_def_t mr_stage_tokens;

enum { FILES = 3, MOST = 900, ROW = FILES * MOST, PIECES = ROW + 1 };

/* ---- what was written ---- */

static struct {
  int n;
  int64_t token[ROW];
  int document[ROW]; /* number of the document of each token */
  bool is_megatron;
} row;

static void add_token(image_t *o, int width, int64_t v) { image_add(o, &v, (size_t)width); }

/* A flat file, with or without llm.c's header; documents end behind token 0 if eos. */
static void write_flat(round_t *r, const char *name, int width, bool headed, bool eos,
                       int *document) {
  image_t o = {0};
  int n = one_in(r, 8) ? 0 : draw(r, MOST);
  if (headed) {
    int32_t *head = image_add(&o, NULL, 1024);
    head[0] = width == 2 ? 20240520 : 20240801, head[1] = width == 2 ? 1 : 7, head[2] = n;
  }
  for (int i = 0; i < n; i++) {
    int64_t v = one_in(r, 9) ? 0
                             : (int64_t)(round_bits(r) & (width == 1   ? 0xFF
                                                          : width == 2 ? 0xFFFF
                                                                       : 0x7FFFFFFF));
    add_token(&o, width, v);
    row.document[row.n] = *document;
    row.token[row.n++] = v;
    if (eos && v == 0) ++*document;
  }
  ++*document;
  write_file(name, o.at ? (void *)o.at : "", o.n);
  free(o.at);
}

/* Megatron's pair: documents of some sequences, some of which are empty. */
static void write_megatron(round_t *r, int k, int *document) {
  static const struct {
    uint8_t code;
    int width;
  } type[] = {{1, 1}, {4, 4}, {8, 2}};
  char name[16];
  image_t bin = {0}, idx = {0}, length = {0}, pointer = {0}, begin = {0};
  int t = draw(r, 3), left = draw(r, MOST), tokens = 0;
  int64_t sequence = 0, zero = 0;
  image_add(&begin, &zero, 8);
  while (left > 0) {
    for (int s = 1 + draw(r, 3); s > 0; s--, sequence++) {
      int32_t n = one_in(r, 6) ? 0 : draw(r, left + 1) % 60;
      int64_t at = (int64_t)tokens * type[t].width;
      image_add(&length, &n, 4), image_add(&pointer, &at, 8);
      for (int i = 0; i < n; i++) {
        int64_t v = (int64_t)(round_bits(r) & (type[t].width == 1   ? 0xFF
                                               : type[t].width == 2 ? 0xFFFF
                                                                    : 0x7FFFFFFF));
        add_token(&bin, type[t].width, v);
        row.document[row.n] = *document;
        row.token[row.n++] = v;
      }
      tokens += n, left -= n;
    }
    ++*document;
    image_add(&begin, &sequence, 8);
    if (one_in(r, 5)) image_add(&begin, &sequence, 8); /* an empty document */
    left--;
  }
  uint64_t version = 1, n = (uint64_t)sequence, m = begin.n / 8;
  image_add(&idx, "MMIDIDX\0\0", 9), image_add(&idx, &version, 8);
  image_add(&idx, &type[t].code, 1), image_add(&idx, &n, 8), image_add(&idx, &m, 8);
  image_add(&idx, length.at, length.n), image_add(&idx, pointer.at, pointer.n);
  image_add(&idx, begin.at, begin.n);
  sprintf(name, "t%d.bin", k), write_file(name, bin.at ? (void *)bin.at : "", bin.n);
  sprintf(name, "t%d.idx", k), write_file(name, idx.at, idx.n);
  free(bin.at), free(idx.at), free(length.at), free(pointer.at), free(begin.at);
}

/* ---- the oracle ---- */

typedef struct range {
  int start, n;
} range_t;
static range_t range[PIECES];
static int n_ranges;

static void list_windows(int length, int stride) {
  n_ranges = 0;
  for (int start = 0; start + length + 1 <= row.n; start += stride)
    range[n_ranges++] = (range_t){start, length + 1};
}

/* Pieces of documents first, then bins of pieces. */
static void list_whole(int length) {
  static range_t piece[PIECES];
  int n_pieces = 0;
  for (int i = 0; i < row.n;) {
    int end = i;
    while (end < row.n && row.document[end] == row.document[i]) end++;
    while (end - i > length + 1) piece[n_pieces++] = (range_t){i, length + 1}, i += length;
    piece[n_pieces++] = (range_t){i, end - i};
    i = end;
  }
  n_ranges = 0;
  for (int p = 0; p < n_pieces; p++) {
    bool cut = p && piece[p].start < piece[p - 1].start + piece[p - 1].n; /* overlaps the last */
    range_t *last = n_ranges ? &range[n_ranges - 1] : NULL;
    if (last && !cut && last->n + piece[p].n <= length + 1 &&
        last->start + last->n == piece[p].start)
      last->n += piece[p].n;
    else
      range[n_ranges++] = piece[p];
  }
}

static void check_window(const round_t *r, const mr_rec_t *rec, int i, int length, bool documents,
                         int pad) {
  const int32_t *token = rec->field[0].data, *target = rec->field[1].data;
  const int32_t *position = rec->field[2].data, *segment = rec->field[3].data;
  const uint8_t *mask = rec->field[4].data;
  int start = range[i].start, n = range[i].n, place = 0, number = 0;
  for (int k = 0; k < length; k++) {
    bool in = k < n, next = k + 1 < n;
    round_check(r, token[k] == (in ? row.token[start + k] : pad), "token %d of %d", k, i);
    round_check(r, target[k] == (next ? row.token[start + k + 1] : pad), "target %d of %d", k, i);
    if (!documents) continue;
    bool first = in && k && row.document[start + k] != row.document[start + k - 1];
    place = first ? 0 : k ? place + 1 : 0, number += first;
    bool aims = next && row.document[start + k] == row.document[start + k + 1];
    round_check(r, position[k] == (in ? place : 0), "position %d of %d: %d", k, i, position[k]);
    round_check(r, segment[k] == (in ? number : -1), "segment %d of %d: %d", k, i, segment[k]);
    round_check(r, mask[k] == aims, "mask %d of %d", k, i);
  }
}

static void check_where(const round_t *r, hand_t *h, int64_t i) {
  char path[MR_WHERE_MAX];
  mr_where_t where = {.file = path};
  int64_t v = 0;
  mr_stage_tokens.source->where(&h->s, i, &where);
  FILE *f = fopen(path, "rb");
  round_check(r, f && fseek(f, (long)where.offset, SEEK_SET) == 0, "%s", path);
  round_check(r, fread(&v, 1, 1, f) == 1, "%s at %d", path, (int)where.offset);
  round_check(r, v == (row.token[range[i].start] & 0xFF), "the first token of %d", (int)i);
  fclose(f);
}

static int write_row(round_t *r, bool eos, const char **dtype) {
  int files = 1 + draw(r, FILES), document = 0, flat = draw(r, 3);
  static const char *const type[] = {"dtype=u16", "dtype=u32", "dtype=u8"};
  *dtype = type[flat];
  row.n = 0;
  for (int k = 0; k < files; k++) {
    char name[16];
    sprintf(name, "t%d.idx", k), unlink(in_folder(name));
    sprintf(name, "t%d.bin", k);
    if (one_in(r, 2))
      write_megatron(r, k, &document);
    else if (one_in(r, 3))
      write_flat(r, name, one_in(r, 2) ? 2 : 4, true, eos, &document);
    else
      write_flat(r, name, flat == 0 ? 2 : flat == 1 ? 4 : 1, false, eos, &document);
  }
  return files;
}

static void random_windows_are_those_of_the_oracle(void **state) {
  static const char *const pack[] = {"pack=stream", "pack=reset", "pack=whole"};
  round_t r = round_first(300);
  while (round_next(&r)) {
    char files[120], length[32], stride[32], memory[32];
    const char *dtype;
    hand_t h;
    bool eos = one_in(&r, 2);
    int n_files = write_row(&r, eos, &dtype), p = draw(&r, 3), l = 1 + draw(&r, 120);
    int step = p == 2 || one_in(&r, 2) ? l : 1 + draw(&r, 200);
    if (p == 2)
      list_whole(l);
    else
      list_windows(l, step);
    if (!n_ranges) continue;
    snprintf(files, sizeof files, "files=%s/t{0..%d}.bin", folder, n_files - 1);
    sprintf(length, "length=%d", l), sprintf(stride, "stride=%d", step);
    /* read as due, kept as in files of u16, kept as i32 */
    sprintf(memory, "memory=%d", one_in(&r, 3) ? 0 : one_in(&r, 2) ? 3 * row.n : -1);
    mr_err_t e = hand_open(&h, &mr_stage_tokens, NULL,
                           HAND_SETTINGS(files, length, stride, pack[p], dtype, "pad=7",
                                         eos ? "eos=0" : "eos=-1", memory));
    round_check(&r, e >= 0, "%s", h.diag.text);
    round_check(&r, h.s.out_spec[0].n_records == n_ranges, "%d, want %d",
                (int)h.s.out_spec[0].n_records, n_ranges);
    burst_t *b = burst_new(&h.s);
    for (int k = 0; k < 8; k++) {
      int64_t index[MR_BURST];
      int n = 1 + draw(&r, MR_BURST);
      for (int i = 0; i < n; i++) index[i] = draw(&r, n_ranges);
      if (one_in(&r, 2)) mr_stage_tokens.source->ahead(&h.s, 0, index, n);
      round_check(&r, burst_fetch(&h, 0, index, n, b) >= 0, "%s", h.diag.text);
      for (int i = 0; i < n; i++) check_window(&r, &b->rec[i], (int)index[i], l, p != 0, 7);
      check_where(&r, &h, index[0]);
    }
    burst_free(b);
    shards_close(&h);
  }
}

/* Each token that is not the first of its document is a target once. */
static void whole_documents_lose_no_target(void **state) {
  round_t r = round_first(100);
  while (round_next(&r)) {
    char files[120], length[32];
    const char *dtype;
    hand_t h;
    int starts = 0, targets = 0, l = 1 + draw(&r, 60), n_files = write_row(&r, true, &dtype);
    for (int i = 0; i < row.n; i++) starts += !i || row.document[i] != row.document[i - 1];
    if (!row.n) continue;
    snprintf(files, sizeof files, "files=%s/t{0..%d}.bin", folder, n_files - 1);
    sprintf(length, "length=%d", l);
    mr_err_t e = hand_open(&h, &mr_stage_tokens, NULL,
                           HAND_SETTINGS(files, length, "pack=whole", dtype, "eos=0"));
    round_check(&r, e >= 0, "%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    for (int64_t i = 0; i < h.s.out_spec[0].n_records; i++) {
      round_check(&r, burst_fetch(&h, 0, &i, 1, b) >= 0, "%s", h.diag.text);
      for (int k = 0; k < l; k++) targets += ((const uint8_t *)b->value[0][4].data)[k];
    }
    round_check(&r, targets == row.n - starts, "%d of %d", targets, row.n - starts);
    burst_free(b);
    shards_close(&h);
  }
}

/* Files are looked through in pieces of 65,536 tokens: documents end on both sides of the borders,
   at them, and in later pieces. */
static void documents_end_behind_each_eos(const char *dtype, int width) {
  enum { N = 200000, EOS = 7 };
  static const int ends[] = {3, 65534, 65535, 65536, 65537, 100000, 131071, 131072, 199990, N - 1};
  enum { ENDS = sizeof ends / sizeof *ends };
  image_t o = {0};
  char files[100];
  hand_t h;
  for (int i = 0, k = 0; i < N; i++) {
    add_token(&o, width, i == ends[k] ? EOS : 1);
    k += i == ends[k] && k < ENDS - 1;
  }
  write_file("long.bin", o.at, o.n);
  free(o.at);
  snprintf(files, sizeof files, "files=%s", in_folder("long.bin"));
  mr_err_t e =
      hand_open(&h, &mr_stage_tokens, NULL,
                HAND_SETTINGS(files, "length=9", "stride=1", "pack=reset", dtype, "eos=7"));
  if (e < 0) fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  int reset_at = -1;
  for (int f = 0; f < h.s.out_spec[0].n_fields; f++)
    if (!strcmp(h.s.out_spec[0].field[f].name, "positions")) reset_at = f;
  assert_true(reset_at >= 0);
  /* The window that begins 4 before the first token of a document counts from 0 again there, and
     nowhere else. */
  for (int i = 0; i < ENDS - 1; i++) {
    int64_t begin = ends[i] + 1, at = begin - 4 < 0 ? 0 : begin - 4;
    assert_true(burst_fetch(&h, 0, &at, 1, b) >= 0);
    const int32_t *position = b->value[0][reset_at].data;
    for (int k = 1; k < 9; k++) {
      bool starts = false;
      for (int j = 0; j < ENDS; j++) starts |= at + k == ends[j] + 1;
      if ((position[k] == 0) != starts)
        fail_msg("token %lld has position %d", (long long)at + k, position[k]);
    }
  }
  burst_free(b);
  shards_close(&h);
}

static void documents_end_behind_eos_wherever_it_stands(void **state) {
  documents_end_behind_each_eos("dtype=u8", 1);
  documents_end_behind_each_eos("dtype=u16", 2);
  documents_end_behind_each_eos("dtype=u32", 4);
}

static void write_idx(const char *magic, uint64_t version, uint8_t type, uint64_t n, uint64_t m,
                      const int32_t *length, const int64_t *pointer, const int64_t *begin) {
  image_t o = {0};
  image_add(&o, magic, 9), image_add(&o, &version, 8), image_add(&o, &type, 1);
  image_add(&o, &n, 8), image_add(&o, &m, 8), image_add(&o, length, 8);
  image_add(&o, pointer, 16), image_add(&o, begin, 24);
  write_file("w.idx", o.at, o.n);
  free(o.at);
}

static void files_and_settings_that_do_not_fit_are_refused(void **state) {
  static const int32_t good[] = {2, 3}, minus[] = {2, -3};
  static const int64_t at[] = {0, 4}, gap[] = {0, 6}, begin[] = {0, 1, 2}, wild[] = {0, 9, 2};
  static const char magic[10] = "MMIDIDX\0";
  char files[100];
  snprintf(files, sizeof files, "files=%s", in_folder("w.bin"));
#define WRONG(piece, ...) want_refused(&mr_stage_tokens, HAND_SETTINGS(files, __VA_ARGS__), piece)
  write_file("w.bin", "0123456789", 10);
  WRONG("want more than length=5 for one window", "length=5");
  WRONG("10 bytes, want a multiple of 4", "length=1", "dtype=u32");
  WRONG("setting stride = 1: pack=whole has no windows", "length=2", "stride=1", "pack=whole");
  WRONG("holdout=5 records", "length=1", "holdout=5");
  write_idx("MMIDIDX\1", 1, 8, 2, 3, good, at, begin);
  WRONG("is not an index of Megatron-LM", "length=2");
  write_idx(magic, 2, 8, 2, 3, good, at, begin);
  WRONG("version 2, tokens of type 8", "length=2");
  write_idx(magic, 1, 7, 2, 3, good, at, begin);
  WRONG("tokens of type 7", "length=2");
  write_idx(magic, 1, 8, UINT64_MAX / 12, 3, good, at, begin);
  WRONG("ends before its", "length=2");
  write_idx(magic, 1, 8, 2, 4, good, at, begin);
  WRONG("ends before its", "length=2");
  write_idx(magic, 1, 8, 2, 3, minus, at, begin);
  WRONG("sequence 1 has -3 tokens", "length=2");
  write_idx(magic, 1, 8, 2, 3, good, gap, begin);
  WRONG("want sequences that follow each other", "length=2");
  write_idx(magic, 1, 8, 2, 3, good, at, wild);
  WRONG("document 1 begins at sequence 9", "length=2", "pack=reset");
  write_idx(magic, 1, 8, 2, 3, good, at, (int64_t[]){0, 1, 1});
  WRONG("its documents go from sequence 0 to 1, want all, 0 to 2", "length=2");
  write_idx(magic, 1, 4, 2, 3, good, (int64_t[]){0, 8}, begin);
  WRONG("10 bytes, and", "length=2");
  unlink(in_folder("w.idx"));
  int32_t head[512] = {20240520, 1, 511};
  write_file("w.bin", head, sizeof head);
  WRONG("its header says version 1 and 511 tokens, want version 1 and 512", "length=2");
}

/* A .npy file of ten ids 0, 3, 6 .. */
static void write_npy_ids(const char *descr, int width) {
  image_t o = {0};
  char head[129];
  memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
  int n = snprintf(head + 10, sizeof head - 10,
                   "{'descr': '%s', 'fortran_order': False, 'shape': (10,), }", descr);
  memset(head + 10 + n, ' ', (size_t)(118 - n));
  image_add(&o, head, 128);
  for (int64_t i = 0; i < 10; i++) add_token(&o, width, 3 * i);
  write_file("w.npy", o.at, o.n);
  free(o.at);
}

static void npy_files_are_rows_of_ids(void **state) {
  static const struct {
    const char *descr;
    int width;
  } type[] = {{"|u1", 1}, {"<u2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}, {"<u8", 8}};
  char files[100];
  hand_t h;
  snprintf(files, sizeof files, "files=%s", in_folder("w.npy"));
  for (size_t k = 0; k < 2 * (sizeof type / sizeof *type); k++) {
    write_npy_ids(type[k / 2].descr, type[k / 2].width);
    if (hand_open(&h, &mr_stage_tokens, NULL,
                  HAND_SETTINGS(files, "length=3", k % 2 ? "memory=0" : "memory=1000000")) < 0)
      fail_msg("%s", h.diag.text);
    burst_t *b = burst_new(&h.s);
    assert_int_equal(h.s.out_spec[0].n_records, 3);
    for (int64_t i = 0; i < 3; i++) {
      if (burst_fetch(&h, 0, &i, 1, b) < 0) fail_msg("%s", h.diag.text);
      for (int j = 0; j < 3; j++)
        assert_int_equal(((int32_t *)b->rec[0].field[0].data)[j], 3 * (3 * i + j));
    }
    burst_free(b), shards_close(&h);
  }
  static const struct {
    const char *descr;
    int width;
    const char *piece;
  } other[] = {{"|b1", 1, "of b1, want"},
               {"|i1", 1, "of i1, want"},
               {"<i2", 2, "of i2, want"},
               {">i2", 2, "of big-endian i2, want"},
               {">u2", 2, "of big-endian u2, want"},
               {">i4", 4, "of big-endian i4, want"},
               {">u4", 4, "of big-endian u4, want"},
               {">i8", 8, "of big-endian i8, want"},
               {">u8", 8, "of big-endian u8, want"},
               {"<f2", 2, "of f2, want"},
               {"<f4", 4, "of f4, want"},
               {"<f8", 8, "of f8, want ids as u1, u2, u4, i4, i8 or u8 in C order"}};
  for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
    write_npy_ids(other[k].descr, other[k].width);
    WRONG(other[k].piece, "length=3");
  }
}

/* How files of other programs begin; letters: the bytes of it that are a name. */
enum { OTHER_BYTES = 1024, OTHERS = 11 };
static const struct {
  size_t n;
  const char *bytes;
  size_t at, letters;
  const char *piece;
} others[OTHERS] = {
    {8 + 54, "\x36\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, 6, "a safetensors file: stage safetensors reads it"},
    {2, "a", 257, 5, "a tar archive: stage tar reads it"},
    {17, "MMIDIDX\0\0\1\0\0\0\0\0\0\0", 0, 7,
     "an index of Megatron-LM: stage tokens reads the .bin"},
    {16,
     "\0\0\0\x18"
     "ftypmp42\0\0\0",
     4, 4, "an MP4 film: no stage reads it"},
    {8, "7z\xBC\xAF\x27\x1C\0\4", 0, 6, "packed by 7z: unpack it first (7z x)"},
    {24, "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 0, 4, "a model of llama.cpp"},
    {9, "%PDF-1.7\n", 0, 5, "a PDF"},
    {16, "RIFF\x24\1\0\0WAVEfmt ", 0, 4, "a WAV file: no stage reads it"},
    {14, "OggS\0\2\0\0\0\0\0\0\0\0", 0, 4, "an Ogg file"},
    {8, "fLaC\0\0\0\x22", 0, 4, "a FLAC file"},
    {8, "fLaC\x80\0\0\x22", 0, 4, "a FLAC file"}};

static void write_other(int i, uint8_t bytes[OTHER_BYTES]) {
  memset(bytes, 0, OTHER_BYTES), memcpy(bytes, others[i].bytes, others[i].n);
  if (others[i].at == 257) {
    unsigned sum = 8 * ' ';
    memcpy(bytes + 257,
           "ustar\0"
           "00",
           8);
    for (int k = 0; k < 512; k++) sum += bytes[k];
    snprintf((char *)bytes + 148, 7, "%06o", sum);
  }
  write_file("w.bin", bytes, OTHER_BYTES);
}

/* Writes the checksum of a TFRecord's length behind it. */
static void seal_length(uint8_t *record) {
  uint32_t crc = mr_crc32c_mask(mr_crc32c(record, 8));
  for (int i = 0; i < 4; i++) record[8 + i] = (uint8_t)(crc >> (8 * i));
}

static void want_ids(const char *dtype, int64_t n, const char *why) {
  char files[100];
  hand_t h;
  snprintf(files, sizeof files, "files=%s", in_folder("w.bin"));
  if (shards_plan(&h, &mr_stage_tokens, HAND_SETTINGS(files, "length=2", "stride=1", dtype)) < 0)
    fail_msg("%s, %s: %s", why, dtype, h.diag.text);
  assert_int_equal(h.s.out_spec[0].n_records, n - 2);
  shards_close(&h);
}

/* Any 16 bits are an id: those that are the letters of a mark are among others here. */
static void ids_that_are_letters_of_a_mark_are_read(void **state) {
  enum { N = OTHER_BYTES / 2 };
  unlink(in_folder("w.idx"));
  for (int i = 0; i < OTHERS; i++) {
    uint16_t id[N];
    uint8_t bytes[OTHER_BYTES];
    write_other(i, bytes);
    for (int k = 0; k < N; k++) id[k] = (uint16_t)(0x0B16 + 97 * k);
    memcpy((uint8_t *)id + others[i].at, bytes + others[i].at, others[i].letters);
    write_file("w.bin", id, sizeof id);
    want_ids("dtype=u16", N, others[i].piece);
  }
  uint16_t llmc[600] = {0xD888, 0x0134}; /* llm.c's mark, behind which zeros would have to stand */
  for (int k = 2; k < 600; k++) llmc[k] = (uint16_t)(0x0B16 + 97 * k);
  write_file("w.bin", llmc, sizeof llmc);
  want_ids("dtype=u16", 600, "ids 55432 308");
  static const uint32_t wide[] = {50256, 0, 8827, 11, 262, 1110, 318, 257, 13, 50256, 8, 4};
  write_file("w.bin", wide, sizeof wide); /* 8827: {" */
  want_ids("dtype=u32", sizeof wide / 4, "50256 0 8827");
  want_ids("dtype=i32", sizeof wide / 4, "50256 0 8827");
  uint32_t near[16] = {24, 0, 8827, 11, 262};
  write_file("w.bin", near, sizeof near);
  want_ids("dtype=u32", 16, "24 0 8827");
  uint16_t record[12] = {464, 3290, 318, 257};
  seal_length((uint8_t *)record);
  write_file("w.bin", record, sizeof record);
  want_ids("dtype=u16", 12, "the length of a record beyond the file");
}

/* Each byte of any file is a token of dtype=u8, and a notice says what the file is. */
static void any_bytes_are_ids_of_u8(void **state) {
  uint8_t bytes[OTHER_BYTES], record[24] = {4};
  unlink(in_folder("w.idx"));
  for (int i = 0; i < OTHERS; i++) {
    char what[24];
    write_other(i, bytes);
    *last_notice = 0;
    want_ids("dtype=u8", OTHER_BYTES, others[i].piece);
    snprintf(what, sizeof what, "is %s", others[i].piece);
    if (strchr(what, ':')) *strchr(what, ':') = 0;
    if (!strstr(last_notice, what) || !strstr(last_notice, "dtype=u8 takes each byte as a token"))
      fail_msg("%s: %s", what, last_notice);
  }
  seal_length(record), write_file("w.bin", record, sizeof record);
  want_ids("dtype=u8", sizeof record, "a TFRecord file");
  assert_non_null(strstr(last_notice, "is a TFRecord file: dtype=u8"));
  write_file("w.bin", "\x1f\x8b\x08\1....\2\3....", 14);
  want_ids("dtype=u8", 14, "packed by gzip");
  assert_non_null(strstr(last_notice, "is packed by gzip: dtype=u8"));
  *last_notice = 0;
  write_file("w.bin", "{\"text\": \"It is a truth\"}\n{\"text\": \"\"}\n", 39);
  want_ids("dtype=u8", 39, "JSON lines");
  assert_string_equal(last_notice, "");
}

/* The look at a file may end within a character.  Ids are what begins none, and controls. */
static void texts_that_are_cut_or_of_two_bytes_a_letter(void) {
  enum { LONG = 6000, SHORT = 100 };
  uint8_t bytes[LONG];
  char files[100];
  snprintf(files, sizeof files, "files=%s", in_folder("w.bin"));
  for (int shift = 0; shift < 3; shift++) {
    for (int i = 0; i < LONG; i++) bytes[i] = (uint8_t) "\xE6\x97\xA5"[(i + 3 - shift) % 3];
    memset(bytes, 'a', (size_t)shift);
    write_file("w.bin", bytes, LONG);
    WRONG("holds text, want token ids", "length=2");
  }
  for (int big = 0; big < 2; big++) {
    for (int i = 0; i < SHORT; i++) bytes[i] = (i & 1) == big ? 'a' : 0;
    bytes[big] = 0xFF, bytes[!big] = 0xFE;
    write_file("w.bin", bytes, SHORT);
    WRONG("holds text, want token ids", "length=2");
    bytes[10 + big] = 7;
    write_file("w.bin", bytes, SHORT);
    want_ids("dtype=u16", SHORT / 2, "no text");
  }
  static const uint8_t none[] = {0x80, 0xC0, 0xFF, 0x01, 0x7F};
  for (size_t i = 0; i < sizeof none; i++) {
    memset(bytes, 'a', SHORT), bytes[50] = none[i];
    write_file("w.bin", bytes, SHORT);
    want_ids("dtype=u16", SHORT / 2, "no text");
  }
}

static void files_that_are_no_ids_are_refused_by_name(void **state) {
  static const struct {
    const char *bytes;
    const char *piece;
  } other[] = {{"\x1f\x8b\x08\1....\2\3..", "packed by gzip"},
               {"\x28\xb5\x2f\xfd\4.\1\1\1.....", "packed by zstd"},
               {"PAR1\25\4\25...............", "a Parquet file"},
               {"It is a truth universally acknowledged, that a single man in possession of a good "
                "fortune, must be in want of a wife.",
                "holds text, want token ids"},
               {"Die Größe der Städte über dem Fluß: schön, grün und müßig, wie früher auch.\n",
                "holds text, want token ids"},
               {"Все счастливые семьи похожи друг на друга, каждая несчастливая по-своему",
                "holds text, want token ids"},
               {"国境の長いトンネルを抜けると雪国であった。夜の底が白くなった。\n信号所に",
                "holds text, want token ids"}};
  char files[100];
  snprintf(files, sizeof files, "files=%s", in_folder("w.bin"));
  unlink(in_folder("w.idx"));
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    write_file("w.bin", other[i].bytes, strlen(other[i].bytes));
    WRONG(other[i].piece, "length=2");
  }
  for (int i = 0; i < OTHERS; i++) {
    uint8_t bytes[OTHER_BYTES];
    write_other(i, bytes);
    WRONG(others[i].piece, "length=2");
  }
  texts_that_are_cut_or_of_two_bytes_a_letter();
  uint8_t record[24] = {4};
  seal_length(record), write_file("w.bin", record, sizeof record);
  WRONG("a TFRecord file: stage tfrecord reads it", "length=2");
  hand_t h;
  record[8] ^= 1; /* a row of ids */
  write_file("w.bin", record, sizeof record);
  if (shards_plan(&h, &mr_stage_tokens, HAND_SETTINGS(files, "length=2")) < 0)
    fail_msg("%s", h.diag.text);
  shards_close(&h);
}

static void tokens_outside_the_vocabulary_make_a_bad_record(void **state) {
  static const uint16_t token[] = {1, 2, 3, 4, 9, 5, 6};
  static const uint32_t large[] = {1, 1u << 31, 2};
  char files[100];
  hand_t h;
  int64_t index[] = {0, 1, 2};
  snprintf(files, sizeof files, "files=%s", in_folder("w.bin"));
  write_file("w.bin", token, sizeof token);
  if (hand_open(&h, &mr_stage_tokens, NULL, HAND_SETTINGS(files, "length=2", "vocab=9")) < 0)
    fail_msg("%s", h.diag.text);
  burst_t *b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, index, 1, b), MR_OK);
  assert_int_equal(burst_fetch(&h, 0, index + 1, 1, b), MR_ERR_DATA);
  assert_non_null(strstr(h.diag.text, "window 1: holds token 9, want tokens below vocab=9"));
  burst_free(b), shards_close(&h);
  write_file("w.bin", large, sizeof large);
  if (hand_open(&h, &mr_stage_tokens, NULL, HAND_SETTINGS(files, "length=2", "dtype=u32")) < 0)
    fail_msg("%s", h.diag.text);
  b = burst_new(&h.s);
  assert_int_equal(burst_fetch(&h, 0, index, 1, b), MR_ERR_DATA);
  burst_free(b), shards_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_windows_are_those_of_the_oracle),
      cmocka_unit_test(whole_documents_lose_no_target),
      cmocka_unit_test(documents_end_behind_eos_wherever_it_stands),
      cmocka_unit_test(files_and_settings_that_do_not_fit_are_refused),
      cmocka_unit_test(npy_files_are_rows_of_ids),
      cmocka_unit_test(files_that_are_no_ids_are_refused_by_name),
      cmocka_unit_test(ids_that_are_letters_of_a_mark_are_read),
      cmocka_unit_test(any_bytes_are_ids_of_u8),
      cmocka_unit_test(tokens_outside_the_vocabulary_make_a_bad_record),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
