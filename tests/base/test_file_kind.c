/* What files are by their first bytes: marks that real programs write, whole and cut short. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "base/file_kind.h"

/* The first bytes of what a program writes to its standard output. */
static size_t read_output_of(const char *command, unsigned char *bytes, size_t most) {
  FILE *f = popen(command, "r");
  assert_non_null(f);
  size_t n = fread(bytes, 1, most, f);
  pclose(f);
  return n;
}

static void files_of_packers_and_of_python_are_known_by_name(void **state) {
  static const struct {
    const char *command, *packer, *what;
  } row[] = {{"echo a | gzip", "gzip", "packed by gzip"},
             {"echo a | bzip2 2>/dev/null", "bzip2", "packed by bzip2"},
             {"echo a | xz 2>/dev/null", "xz", "packed by xz"},
             {"python3 -c 'import pickle,sys; sys.stdout.buffer.write(pickle.dumps(dict(a=1), 4))'",
              NULL, "a Python pickle"},
             {"python3 -c 'import pickle,sys; sys.stdout.buffer.write(pickle.dumps([1, 2, 3], 5))'",
              NULL, "a Python pickle"},
             {"python3 -c 'import io,sys,zipfile; b = io.BytesIO(); z = zipfile.ZipFile(b, \"w\"); "
              "z.writestr(\"a\", \"b\"); z.close(); sys.stdout.buffer.write(b.getvalue())'",
              NULL, "a zip file, as .npz, torch.save and spreadsheets are"}};
  int found = 0;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    unsigned char bytes[64];
    size_t n = read_output_of(row[i].command, bytes, sizeof bytes);
    if (!n) continue; /* the program is not on this machine */
    const mr_file_kind_t *kind = mr_file_kind(bytes, n);
    if (!kind) fail_msg("%s is of no kind", row[i].command);
    assert_ptr_equal(mr_file_kind_sure(bytes, n), kind);
    assert_string_equal(kind->what, row[i].what);
    assert_int_equal(!kind->packer, !row[i].packer);
    if (row[i].packer) assert_string_equal(kind->packer, row[i].packer);
    assert_int_equal(!kind->packer, !kind->unpack);
    assert_null(mr_file_kind(bytes, 1));
    found++;
  }
  assert_true(found > 0);
}

static void a_sentence_ends_with_what_a_file_is(void **state) {
  static const struct {
    const char *bytes, *hint;
  } row[] = {{"{\"a\": 1}\n{\"a\": 2}\n", "; it is JSON lines"},
             {"  [1, 2, 3, 4, 5]\n", "; it is JSON"},
             {"{\"a\": 1, \"b\": [2]}", "; it is JSON"},
             {"a,b\n1,2\n3,4\n5,6\n", "; it is text"},
             {"BZh,b\n1,2\n3,4\n5,6\n", "; it is text"},
             {"BZh,b\n1,2\n", ""},
             {"\xEF\xBB\xBFgr\xC3\xBC\xC3\x9F Gott, Welt", "; it is text"},
             {"short", ""},
             {"PAR1\25\4\25", "; it is a Parquet file"},
             {"ARROW1", "; it is an Arrow file"},
             {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
              "; it is a pointer of Git LFS: git lfs pull fetches the file that it stands for"},
             {"<!DOCTYPE html><html><body>Not found</body></html>",
              "; it is a web page: if a server has answered so, ask it for the file again"},
             {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>",
              "; it is XML: if a server has answered so, ask it for the file again"},
             {"Obj\1\4\26avro.schema", "; it is an Avro file"},
             {"\x1f\x8b\x08", "; it is packed by gzip: unpack it first (gunzip)"},
             {"\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3", ""}};
  char hint[120];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_string_equal(mr_file_kind_hint(row[i].bytes, strlen(row[i].bytes), hint, sizeof hint),
                        row[i].hint);
  assert_string_equal(mr_file_hint("/nowhere/at/all", hint, sizeof hint), "");
}

static void ids_that_are_the_letters_of_a_mark_are_of_no_kind(void **state) {
  static const char *const mark[] = {"\x1f\x8b\x08",
                                     "\x28\xb5\x2f\xfd",
                                     "BZh",
                                     "\xfd\x37\x7a\x58\x5a",
                                     "\x04\x22\x4d\x18",
                                     "PK\3\4",
                                     "PAR1",
                                     "FEA1",
                                     "Obj\1",
                                     "\xff\xd8\xff",
                                     "\x80\2}",
                                     "\x80\2]",
                                     "\x80\2c",
                                     "\x80\3}",
                                     "\x80\3]",
                                     "\x80\3c",
                                     "\x80\4\x95",
                                     "\x80\5\x95",
                                     "ARROW1",
                                     "<html",
                                     "<?xml"};
  static const uint8_t behind[][16] = {
      /* the same id again, as padding is, and two rows of ids as a tokenizer gives them */
      {0x0F, 0x3B, 0x0F, 0x3B, 0x0F, 0x3B, 0x0F, 0x3B, 0x0F, 0x3B, 0x0F, 0x3B, 0x0F, 0x3B, 0x6F,
       0x3B},
      {0xFF, 0xC4, 0xFF, 0x04, 0xFF, 0xC4, 0xFF, 0x04, 0xFF, 0xC4, 0xFF, 0x04, 0xFF, 0xC4, 0xFF,
       0xC4},
      {0x0D, 0x01, 0x8E, 0x3C, 0x16, 0x01, 0xC6, 0x00, 0x8C, 0x3E, 0x0B, 0x00, 0xB5, 0x05, 0x2A,
       0x11}};
  for (size_t m = 0; m < sizeof mark / sizeof *mark; m++)
    for (size_t k = 0; k < sizeof behind / sizeof *behind; k++) {
      uint8_t ids[64];
      size_t n = strlen(mark[m]);
      for (size_t i = 0; i < sizeof ids; i++)
        ids[i] = i < n ? (uint8_t)mark[m][i] : behind[k][(i - n) % 16];
      const mr_file_kind_t *kind = mr_file_kind_sure(ids, sizeof ids);
      if (kind) fail_msg("mark %zu, ids %zu: %s", m, k, kind->what);
    }
}

static void text_and_numbers_are_of_no_kind(void **state) {
  static const uint16_t ids[] = {15496, 995, 0, 50256};
  static const float numbers[] = {0, 1, -1, 0.5f};
  assert_null(mr_file_kind("id,x\n1,2\n", 9));
  assert_null(mr_file_kind(ids, sizeof ids));
  assert_null(mr_file_kind(numbers, sizeof numbers));
  assert_null(mr_file_kind("", 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_of_packers_and_of_python_are_known_by_name),
      cmocka_unit_test(a_sentence_ends_with_what_a_file_is),
      cmocka_unit_test(ids_that_are_the_letters_of_a_mark_are_of_no_kind),
      cmocka_unit_test(text_and_numbers_are_of_no_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
