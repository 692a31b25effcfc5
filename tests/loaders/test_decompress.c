/* Compressed files: random bytes in frames and members of any number come out as they went in;
   damaged, cut, foreign and overlong ones are refused and leave nothing behind. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/xio.h"
#include "loaders/shards/decompress.h"
#include "loaders/shards/shard_place.h"
#include "tests/loaders/shards.h"

enum { MOST = 1 << 20 };

static void add_gz(image_t *o, const void *data, size_t n) {
  z_stream z = {.next_in = (void *)data, .avail_in = (uInt)n};
  assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  size_t most = deflateBound(&z, n), at = o->n;
  z.next_out = image_add(o, NULL, most), z.avail_out = (uInt)most;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  o->n = at + most - z.avail_out;
  deflateEnd(&z);
}

static void add_zstd(image_t *o, const void *data, size_t n) {
  size_t most = ZSTD_compressBound(n), at = o->n;
  void *to = image_add(o, NULL, most);
  size_t got = ZSTD_compress(to, most, data, n, 1);
  assert_false(ZSTD_isError(got));
  o->n = at + got;
}

static uint8_t *draw_bytes(round_t *r, size_t n) {
  uint8_t *data = malloc(n + 1);
  assert_non_null(data);
  uint64_t run = round_bits(r);
  for (size_t i = 0; i < n; i++) {
    if (!(i & 63)) run = round_bits(r);
    data[i] = (uint8_t)(run >> (i & 7) * 8);
  }
  return data;
}

static mr_err_t decompress_file(const char *name, const mr_compressed_t *c, char **out,
                                mr_diag_t *diag) {
  mr_shard_id_t id;
  mr_shard_file_t f = {.path = in_folder(name), .fd = open(in_folder(name), O_RDONLY)};
  assert_true(f.fd >= 0);
  assert_int_equal(mr_shard_id_of(f.fd, f.path, &id, diag), MR_OK);
  f.size = id.size;
  mr_err_t e = mr_decompress(&f, &id, in_folder("cache"), c, out, diag);
  mr_shard_file_fini(&f);
  close(f.fd);
  return e;
}

static int files_in_cache(void) {
  int n = 0;
  DIR *d = opendir(in_folder("cache"));
  for (struct dirent *e; d && (e = readdir(d));) n += *e->d_name != '.';
  if (d) closedir(d);
  return n;
}

/* Packs data in a few pieces. */
static image_t pack(round_t *r, bool gz, const uint8_t *data, size_t n) {
  image_t o = {0};
  for (size_t at = 0; at < n || !o.n;) {
    size_t some = one_in(r, 2) ? n - at : (size_t)draw(r, (int)(n - at) + 1);
    if (gz)
      add_gz(&o, data + at, some);
    else
      add_zstd(&o, data + at, some);
    at += some;
  }
  return o;
}

static void decompressing_gives_the_bytes_that_were_compressed(void **state) {
  round_t r = round_first(60);
  while (round_next(&r)) {
    bool gz = one_in(&r, 2);
    size_t n = (size_t)draw(&r, MOST), got;
    uint8_t *data = draw_bytes(&r, n);
    image_t o = pack(&r, gz, data, n);
    mr_compressed_t c = {
        .codec = gz ? "gz" : "zstd", .packed = (int64_t)o.n, .unpacked = (int64_t)n};
    char *out, *again;
    void *back;
    mr_diag_t d = {0};
    strcpy(c.unpacked_digest.name, "xxh64");
    snprintf(c.unpacked_digest.text, MR_DIGEST_TEXT, "%016llx",
             (unsigned long long)XXH64(data, n, 0));
    write_file("p", o.at, o.n);
    mr_err_t e = decompress_file("p", &c, &out, &d);
    round_check(&r, e >= 0, "%s", d.text);
    assert_int_equal(mr_read_file(out, MOST, &back, &got, &d), MR_OK);
    round_check(&r, got == n && !memcmp(back, data, n), "other bytes");
    assert_int_equal(decompress_file("p", &c, &again, &d), MR_OK);
    assert_string_equal(again, out);
    unlink(out);
    free(out), free(again), free(back), free(data), free(o.at);
  }
}

static void damaged_files_leave_nothing(void **state) {
  round_t r = round_first(200);
  int before = files_in_cache();
  while (round_next(&r)) {
    bool gz = one_in(&r, 2);
    size_t n = 1 + (size_t)draw(&r, 9000);
    uint8_t *data = draw_bytes(&r, n);
    image_t o = pack(&r, gz, data, n);
    mr_compressed_t c = {
        .codec = gz ? "gz" : "zstd", .packed = (int64_t)o.n, .unpacked = (int64_t)n};
    char *out;
    mr_diag_t d = {0};
    strcpy(c.packed_digest.name, "xxh32");
    snprintf(c.packed_digest.text, MR_DIGEST_TEXT, "%08x", XXH32(o.at, o.n, 0));
    switch (draw(&r, 4)) {
      case 0: o.at[draw(&r, (int)o.n)] ^= (uint8_t)(1 + draw(&r, 255)); break;
      case 1: o.n = (size_t)draw(&r, (int)o.n); break;
      case 2: c.unpacked--; break;
      default: c.unpacked++;
    }
    write_file("p", o.at, o.n);
    mr_err_t e = decompress_file("p", &c, &out, &d);
    round_check(&r, e == MR_ERR_DATA && !out && strstr(d.text, "/p: "), "%d %s", e, d.text);
    free(data), free(o.at);
  }
  assert_int_equal(files_in_cache(), before);
}

/* A gigabyte of zeros in a few kilobytes is not written beyond the size announced. */
static void bombs_are_cut(void **state) {
  enum { ZEROS = 1 << 26 };
  uint8_t *zero = calloc(1, ZEROS);
  image_t o = {0};
  char *out;
  mr_diag_t d = {0};
  assert_non_null(zero);
  for (int i = 0; i < 16; i++) add_zstd(&o, zero, ZEROS);
  assert_true(o.n < 1 << 18);
  write_file("bomb", o.at, o.n);
  mr_compressed_t c = {.codec = "zstd", .packed = (int64_t)o.n, .unpacked = 1000};
  assert_int_equal(decompress_file("bomb", &c, &out, &d), MR_ERR_DATA);
  assert_non_null(strstr(d.text, "holds more than the 1000 bytes announced"));
  c.codec = "br";
  assert_int_equal(decompress_file("bomb", &c, &out, &d), MR_ERR_CONFIG);
  free(zero), free(o.at);
}

/* The last bytes fill the buffer from which they are written, and nothing is left to come out. */
static void contents_that_fill_the_last_buffer_come_out(void **state) {
  for (int gz = 0; gz < 2; gz++)
    for (size_t buffers = 1; buffers < 4; buffers++)
      for (int more = -1; more < 2; more++) {
        size_t n = (buffers << 18) + (size_t)(long)more;
        round_t r = {.x = 9};
        uint8_t *data = draw_bytes(&r, n);
        image_t o = {0};
        char *out, name[32];
        mr_diag_t d = {0};
        mr_compressed_t c = {
            .codec = gz ? "gz" : "zstd", .packed = -1, .unpacked = -1, .most = 1 << 24};
        if (gz)
          add_gz(&o, data, n);
        else
          add_zstd(&o, data, n);
        snprintf(name, sizeof name, "full-%d-%zu", gz, n);
        write_file(name, o.at, o.n);
        if (decompress_file(name, &c, &out, &d) < 0) fail_msg("%s", d.text);
        free(out), free(data), free(o.at);
      }
}

/* A server may give neither ETag nor time: nothing but the bytes tells two versions apart. */
static void a_file_without_versions_is_decompressed_each_time(void **state) {
  const mr_object_t object = {.name = "http://h/x", .url = "http://h/x", .etag = ""};
  const mr_shard_id_t id = {.size = 1};
  char *out[3];
  size_t got;
  void *back;
  mr_diag_t d = {0};
  for (int i = 0; i < 3; i++) {
    static const char *const text[] = {"one", "two", "one"};
    image_t o = {0};
    add_zstd(&o, text[i], 3);
    write_file("unversioned", o.at, o.n);
    mr_compressed_t c = {.codec = "zstd", .packed = -1, .unpacked = -1, .most = 1000};
    mr_shard_file_t f = {.path = in_folder("unversioned"),
                         .fd = open(in_folder("unversioned"), O_RDONLY),
                         .size = (int64_t)o.n,
                         .object = &object};
    if (mr_decompress(&f, &id, in_folder("cache"), &c, &out[i], &d) < 0) fail_msg("%s", d.text);
    assert_int_equal(mr_read_file(out[i], MOST, &back, &got, &d), MR_OK);
    assert_int_equal(got, 3);
    assert_memory_equal(back, text[i], 3);
    mr_shard_file_fini(&f);
    close(f.fd), free(back), free(o.at);
  }
  assert_string_not_equal(out[0], out[1]); /* readers of the first one keep it */
  assert_string_equal(out[0], out[2]);
  for (int i = 0; i < 3; i++) free(out[i]);
}

/* Several processes that begin at once get one file: a second one, although equal, would look like
   a changed file to those that have planned with the first. */
static void processes_that_begin_at_once_share_the_file(void **state) {
  enum { PROCESSES = 5 };
  round_t r = round_first(12);
  while (round_next(&r)) {
    bool gz = one_in(&r, 2);
    size_t n = MOST / 2 + (size_t)draw(&r, MOST / 2);
    uint8_t *data = draw_bytes(&r, n);
    image_t o = pack(&r, gz, data, n);
    mr_compressed_t c = {.codec = gz ? "gz" : "zstd", .packed = (int64_t)o.n, .most = MOST};
    c.unpacked = one_in(&r, 2) ? (int64_t)n : -1;
    int before = files_in_cache(), say[2], status;
    char other[420];
    struct {
      ino_t file;
      char path[400];
    } made, first = {0};
    write_file("shared", o.at, o.n);
    assert_int_equal(pipe(say), 0);
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
      if (fork()) continue;
      struct stat st;
      char *out = NULL;
      mr_diag_t d = {0};
      if (decompress_file("shared", &c, &out, &d) < 0 || stat(out, &st) < 0) _exit(1);
      made.file = st.st_ino;
      snprintf(made.path, sizeof made.path, "%s", out);
      _exit(write(say[1], &made, sizeof made) != sizeof made);
    }
    close(say[1]);
    for (int i = 0; i < PROCESSES; i++) {
      assert_true(wait(&status) > 0 && status == 0);
      assert_int_equal(read(say[0], &made, sizeof made), sizeof made);
      if (!i) first = made;
      round_check(&r, made.file == first.file, "another file");
    }
    close(say[0]);
    round_check(&r, files_in_cache() == before + 3, "more is left than file, check and states");
    snprintf(other, sizeof other, "%s.sum", first.path);
    unlink(first.path), unlink(other);
    snprintf(other, sizeof other, "%.*sstates", (int)strlen(first.path) - 20, first.path);
    unlink(other);
    free(data), free(o.at);
  }
}

/* ---- files that are kept ---- */

/* Writes file "kept", which holds what `text` says, and decompresses it; returns the path, heap. */
static char *keep(const char *text) {
  image_t o = {0};
  mr_compressed_t c = {.codec = "zstd", .packed = -1, .unpacked = -1, .most = MOST};
  char *out;
  mr_diag_t d = {0};
  add_zstd(&o, text, strlen(text));
  write_file("kept", o.at, o.n);
  assert_int_equal(utimensat(AT_FDCWD, in_folder("kept"), (struct timespec[2]){{9, 0}, {9, 0}}, 0),
                   0);
  if (decompress_file("kept", &c, &out, &d) < 0) fail_msg("%s", d.text);
  free(o.at);
  return out;
}

static void holds(const char *path, const char *text) {
  void *back;
  size_t got;
  assert_int_equal(mr_read_file(path, MOST, &back, &got, NULL), MR_OK);
  assert_string_equal(back, text);
  free(back);
}

/* The path of another file of one that is kept. */
static const char *with_ending(const char *path, const char *ending) {
  static char out[2][520];
  static int at;
  snprintf(out[at ^= 1], sizeof out[0], "%s%s", path, ending);
  return out[at];
}

static ino_t file_at(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? st.st_ino : 0;
}

static void set_age(const char *path, time_t seconds) {
  struct timespec at = {time(NULL) - seconds, 0};
  assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){at, at}, 0), 0);
}

static void damage(const char *path, off_t at) {
  int fd = open(path, O_RDWR);
  uint8_t byte;
  assert_int_equal(pread(fd, &byte, 1, at), 1);
  byte ^= 16;
  assert_int_equal(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

/* Of the same size, and with or without the time of the file that was made. */
static void a_damaged_file_is_decompressed_again(void **state) {
  enum { BYTES = 20000 };
  char text[BYTES + 1];
  memset(text, 'x', BYTES), text[BYTES] = 0;
  for (int what = 0; what < 5; what++) {
    char *out = keep(text);
    struct stat st;
    int said = n_notices;
    assert_int_equal(stat(out, &st), 0);
    switch (what) {
      case 0: damage(out, 10000), set_age(out, 5); break;
      case 1: /* the first bytes are looked at each time */
        damage(out, 10);
        assert_int_equal(utimensat(AT_FDCWD, out, (struct timespec[2]){st.st_atim, st.st_mtim}, 0),
                         0);
        break;
      case 2: assert_int_equal(truncate(out, BYTES - 1), 0); break;
      case 3: damage(with_ending(out, ".sum"), 30); break;
      default: assert_int_equal(unlink(with_ending(out, ".sum")), 0);
    }
    char *again = keep(text);
    assert_string_equal(again, out);
    assert_int_equal(n_notices, said + 1);
    holds(again, text);
    free(out), free(again);
  }
}

/* Such a file is read once more, and not each time. */
static void a_copied_file_is_used(void **state) {
  char *out = keep("copied"), *again;
  ino_t was = file_at(out);
  int said = n_notices;
  set_age(out, 5);
  for (int i = 0; i < 2; i++) {
    ino_t sum = file_at(with_ending(out, ".sum"));
    free(again = keep("copied"));
    assert_int_equal(file_at(out), was);
    assert_int_equal(file_at(with_ending(out, ".sum")) == sum, i);
  }
  assert_int_equal(n_notices, said);
  free(out);
}

static void files_of_earlier_states_that_are_not_used_are_removed(void **state) {
  enum { DAY = 24 * 3600 };
  char *old = keep("old"), *recent = keep("recent"), back[4] = "";
  char index[MR_SHARD_PLACE_MAX];
  int fd = open(old, O_RDONLY);
  assert_true(mr_shard_place(old, in_folder("cache"), 0, index));
  assert_int_equal(mr_write_file(index, "x", 1, NULL), MR_OK);
  set_age(with_ending(old, ".sum"), 2 * DAY);
  set_age(old, 9 * DAY), set_age(recent, 9 * DAY); /* the time of the last use decides */
  free(keep("recent"));
  assert_true(file_at(old)); /* nothing was made */
  char *now = keep("now");
  assert_true(file_at(now) && file_at(recent) && file_at(with_ending(recent, ".sum")));
  assert_false(file_at(old) || file_at(with_ending(old, ".sum")) || file_at(index));
  assert_int_equal(read(fd, back, 3), 3); /* one that is open can still be read */
  assert_string_equal(back, "old");
  close(fd);
  char *made = keep("old");
  assert_string_equal(made, old);
  holds(made, "old");
  free(old), free(recent), free(now), free(made);
}

/* Lines that are no states do not name files to remove. */
static void a_damaged_list_of_states_removes_nothing_else(void **state) {
  enum { DAY = 24 * 3600 };
  static const char *const line[] = {"0123456789abcdeF", "0123456789abcdef0", "../0123456789abc"};
  char *old = keep("one"), list[500], other[500];
  int stem = (int)(strlen(old) - 16 - strlen(".raw"));
  snprintf(list, sizeof list, "%.*sstates", stem, old);
  FILE *f = fopen(list, "a");
  assert_non_null(f);
  for (int i = 0; i < 3; i++) fprintf(f, "%s\n", line[i]);
  assert_int_equal(fclose(f), 0);
  set_age(with_ending(old, ".sum"), 2 * DAY);
  for (int i = 0; i < 2; i++) {
    snprintf(other, sizeof other, "%.*s%s.raw", stem, old, line[i]);
    assert_int_equal(mr_write_file(other, "x", 1, NULL), MR_OK);
    assert_int_equal(mr_write_file(with_ending(other, ".sum"), "x", 1, NULL), MR_OK);
    set_age(with_ending(other, ".sum"), 2 * DAY);
  }
  free(keep("another"));
  assert_false(file_at(old)); /* the list was read */
  for (int i = 0; i < 2; i++) {
    snprintf(other, sizeof other, "%.*s%s.raw", stem, old, line[i]);
    assert_true(file_at(other) && file_at(with_ending(other, ".sum")));
  }
  free(old);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decompressing_gives_the_bytes_that_were_compressed),
      cmocka_unit_test(damaged_files_leave_nothing),
      cmocka_unit_test(bombs_are_cut),
      cmocka_unit_test(a_file_without_versions_is_decompressed_each_time),
      cmocka_unit_test(contents_that_fill_the_last_buffer_come_out),
      cmocka_unit_test(a_damaged_file_is_decompressed_again),
      cmocka_unit_test(a_copied_file_is_used),
      cmocka_unit_test(files_of_earlier_states_that_are_not_used_are_removed),
      cmocka_unit_test(a_damaged_list_of_states_removes_nothing_else),
      cmocka_unit_test(processes_that_begin_at_once_share_the_file)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
