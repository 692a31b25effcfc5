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

#include "base/crc32c.h"
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
              NULL, "a zip file"}};
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
             {"PAR1\25\4\25",
              "; it is a Parquet file: write it as CSV (pandas: to_csv), which stage table reads"},
             {"ARROW1",
              "; it is an Arrow file: write it as CSV (pandas: to_csv), which stage table reads"},
             {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
              "; it is a pointer of Git LFS: git lfs pull fetches the file that it stands for"},
             {"<!DOCTYPE html><html><body>Not found</body></html>",
              "; it is a web page: if a server has answered so, ask it for the file again"},
             {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>",
              "; it is XML: if a server has answered so, ask it for the file again"},
             {"Obj\1\4\26avro.schema",
              "; it is an Avro file: write it as CSV (pandas: to_csv), which stage table reads"},
             {"\x1f\x8b\x08", "; it is packed by gzip: unpack it first (gunzip)"},
             {"\1\2\3\4\5\6\7\1\2\3\4\5\6\7\1\2\3", ""}};
  char hint[MR_FILE_HINT];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    assert_string_equal(mr_file_kind_hint(row[i].bytes, strlen(row[i].bytes), hint, sizeof hint),
                        row[i].hint);
  assert_string_equal(mr_file_hint("/nowhere/at/all", hint, sizeof hint), "");
}

/* The first bytes of files that their own libraries wrote, or programs of their kind. */
static void every_mark_is_known_and_says_what_to_do(void **state) {
#define HEAD(bytes) bytes, sizeof(bytes) - 1
#define TABLE "write it as CSV (pandas: to_csv), which stage table reads"
#define ARRAYS "write its arrays with numpy.savez, which stage npz reads"
#define FOLDER "write it as PNG or JPEG, which stage folder reads"
#define NONE "no stage reads it"
#define ZIP(name, length, more) "PK\3\4\x14\0\0\0\0\0\0\0!\0abcdefghijkl" length "\0\0\0" name more
  static const struct {
    const char *bytes;
    size_t n;
    const char *what, *instead;
  } row[] = {
      {HEAD("\x93NUMPY\1\0v\0{'descr': "), "an .npy file", "stage npy reads it"},
      {HEAD(ZIP("x.npy", "\5", "\x93NUMPY")), "an .npz file", "stage npz reads it"},
      {HEAD(ZIP("[Content_Types].xml", "\x13", "<?xml")),
       "a spreadsheet or another office document (.xlsx, .ods)", TABLE},
      {HEAD(ZIP("docProps/app.xml", "\x10", "<?xml")),
       "a spreadsheet or another office document (.xlsx, .ods)", TABLE},
      {HEAD(ZIP("mimetype", "\x8", "application/vnd.oasis.opendocument.spreadsheet")),
       "a spreadsheet or another office document (.xlsx, .ods)", TABLE},
      {HEAD(ZIP("mimetype", "\x8", "application/epub+zip and more behind it, as long")),
       "a zip file", "unpack it first (unzip)"},
      {HEAD(ZIP("archive/data.pkl", "\x10", "\x80\2}")), "a file of torch.save", ARRAYS},
      {HEAD(ZIP("a.csv", "\5", "x,y")), "a zip file", "unpack it first (unzip)"},
      {HEAD("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "an empty zip file", NONE},
      {HEAD("\x40\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"F32\",\"shape\":[4,2]"), "a safetensors file",
       "stage safetensors reads it"},
      {HEAD("\x83\xaf\x70\xd1\x0d\x88\x4a\x3f\0\0\0\0"), "an ArrayRecord or Riegeli file",
       "stage arrayrecord reads it"},
      {HEAD("\2\0\2\0\0\0\x80\0\x0a\0\0\0\0\0\0\0\x40\0\x80\0\0\0\0\0\1label\0\0"),
       "an FFCV file (.beton)", "stage beton reads it"},
      {HEAD("MMIDIDX\0\0\1\0\0\0"), "an index of Megatron-LM",
       "stage tokens reads the .bin beside it"},
      {HEAD("MRSHARD1tar"), "an index that millrace made", "name the file that it stands for"},
      {HEAD("\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0\x30"), "packed by lzma",
       "unpack it first (unlzma)"},
      {HEAD("\x04\x22\x4d\x18\x64\x40\xa7"), "packed by lz4", "unpack it first (unlz4)"},
      {HEAD("\x02\x21\x4c\x18\x90\3\0\0"), "packed by lz4", "unpack it first (unlz4)"},
      {HEAD("\x1f\x9d\x90"), "packed by compress", "unpack it first (uncompress)"},
      {HEAD("\xff\6\0\0sNaPpY"), "packed by snappy", "unpack it first (snzip -d)"},
      {HEAD("LZIP\1\x0c"), "packed by lzip", "unpack it first (lzip -d)"},
      {HEAD("7z\xbc\xaf\x27\x1c\0\4"), "packed by 7z", "unpack it first (7z x)"},
      {HEAD("Rar!\x1a\7\1\0"), "packed by rar", "unpack it first (unrar x)"},
      {HEAD("FEA1\0\0\0\0"), "a Feather file", TABLE},
      {HEAD("\xff\xff\xff\xff\x70\1\0\0\x10\0\0\0\0\0\x0a\0"), "an Arrow stream", TABLE},
      {HEAD("ORC\x13\0\0\x0a\5"), "an ORC file", TABLE},
      {HEAD("SQLite format 3\0"), "a database of SQLite", TABLE},
      {HEAD("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
       "an old spreadsheet or another office document (.xls)", TABLE},
      {HEAD("<stata_dta><header>"), "a file of Stata", TABLE},
      {HEAD("r\2\1\0\4\0"), "a file of Stata", TABLE},
      {HEAD("s\2\1\0\4\0"), "a file of Stata", TABLE},
      {HEAD("$FL2@(#) SPSS"), "a file of SPSS", TABLE},
      {HEAD("\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92"), "a file of SAS",
       TABLE},
      {HEAD("<table border=\"1\" class=\"dataframe\">"), "a table of HTML", TABLE},
      {HEAD("\x89HDF\r\n\x1a\n"), "an HDF5 file", ARRAYS},
      {HEAD("MATLAB 5.0 MAT-file, Platform"), "a file of MATLAB", ARRAYS},
      {HEAD("CDF\1\0\0\0\0\0\0\0\x0a"), "a NetCDF file", ARRAYS},
      {HEAD("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."), "a file of torch.save", ARRAYS},
      {HEAD("GGUF\3\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"), "a model of llama.cpp (GGUF)", NONE},
      {HEAD("\x89PNG\r\n\x1a\n"), "a PNG picture",
       "stage folder reads pictures, in a folder a class"},
      {HEAD("\xff\xd8\xff\xe0\0\x10JFIF"), "a JPEG picture",
       "stage folder reads pictures, in a folder a class"},
      {HEAD("RIFF\x24\0\0\0WEBPVP8 "), "a WebP picture",
       "stage folder reads pictures, in a folder a class"},
      {HEAD("GIF89a\x20\0\x20\0"), "a GIF picture", FOLDER},
      {HEAD("BM\x36\x0c\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x20"), "a BMP picture", FOLDER},
      {HEAD("\0\0\1\0\1\0\x20\x20\0\0\0\0\x20\0\1\2\3\0\x16\0\0\0"), "an icon", FOLDER},
      {HEAD("P4 16 2\n\0\1\2\3"), "a picture of Netpbm", FOLDER},
      {HEAD("P5\n# by hand\n2 # wide\n2\n65535\n\xff\xff\xff\xff"), "a picture of Netpbm", FOLDER},
      {HEAD("P6\n32 32\n255\n\1\2\3"), "a picture of Netpbm", FOLDER},
      {HEAD("II*\0\x08\0\0\0"), "a TIFF picture", FOLDER},
      {HEAD("MM\0*\0\0\0\x08"), "a TIFF picture", FOLDER},
      {HEAD("\0\0\0\x1c"
            "ftypavif\0\0\0\0"),
       "an AVIF or HEIF picture", FOLDER},
      {HEAD("\0\0\0\x0cjP  \r\n\x87\n"), "a JPEG 2000 picture", FOLDER},
      {HEAD("\0\0\0\x18"
            "ftypmp42\0\0\0\0"),
       "an MP4 film", NONE},
      {HEAD("RIFF\x24\0\0\0WAVEfmt "), "a WAV file", NONE},
      {HEAD("RIFF\x24\0\0\0AVI LIST"), "an AVI film", NONE},
      {HEAD("OggS\0\2\0\0\0\0\0\0\0\0\1"), "an Ogg file", NONE},
      {HEAD("fLaC\0\0\0\x22\x10"), "a FLAC file", NONE},
      {HEAD("ID3\4\0\0\0\0\1\x23"), "an MP3 file", NONE},
      {HEAD("%PDF-1.7\n%"), "a PDF", NONE},
      {HEAD("\x7f"
            "ELF\2\1\1\0\0"),
       "a program (ELF)", NONE}};
  char hint[MR_FILE_HINT], want[MR_FILE_HINT];
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const mr_file_kind_t *kind = mr_file_kind_sure(row[i].bytes, row[i].n);
    if (!kind) fail_msg("row %zu, %s: of no kind", i, row[i].what);
    assert_string_equal(kind->what, row[i].what);
    assert_ptr_equal(mr_file_kind(row[i].bytes, row[i].n), kind);
    snprintf(want, sizeof want, "; it is %s: %s", row[i].what, row[i].instead);
    assert_string_equal(mr_file_kind_hint(row[i].bytes, row[i].n, hint, sizeof hint), want);
    assert_true(strlen(want) + 1 < sizeof want);
  }
}

/* Bytes that begin like a tar archive or a TFRecord file, without its checksum, are of no kind. */
static void a_head_counts_with_its_sum(void **state) {
  unsigned char tar[512] = "a.cls", record[16] = {0x18};
  memcpy(tar + 148, "        ", 8), memcpy(tar + 257, "ustar", 6);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof tar; i++) sum += tar[i];
  snprintf((char *)tar + 148, 8, "%06o", sum);
  assert_string_equal(mr_file_kind_sure(tar, sizeof tar)->what, "a tar archive");
  assert_null(mr_file_kind(tar, sizeof tar - 1));
  tar[1]++;
  assert_null(mr_file_kind(tar, sizeof tar));
  uint32_t crc = mr_crc32c_mask(mr_crc32c(record, 8));
  for (int i = 0; i < 4; i++) record[8 + i] = (unsigned char)(crc >> 8 * i);
  assert_string_equal(mr_file_kind_sure(record, sizeof record)->what, "a TFRecord file");
  record[0]++;
  assert_null(mr_file_kind(record, sizeof record));
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
                                     "\x5d",
                                     "\x1f\x9d",
                                     "BM",
                                     "II*",
                                     "P6",
                                     "CDF",
                                     "GGUF",
                                     "RIFF",
                                     "ID3",
                                     "\xff\xff\xff\xff",
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
  /* columns called as the marks of Netpbm, and heads that lack a number or the pixels */
  static const struct {
    const char *bytes;
    size_t n;
  } row[] = {{HEAD("P5\n1\n2\n3\n")},
             {HEAD("P5\n1\n2\n3\n4\n")},
             {HEAD("P5 2019,price\n1,2\n")},
             {HEAD("P6\t1")},
             {HEAD("P6\t1\t2\t3\n4\t5\t6\t7\n")},
             {HEAD("P4\n1\n2\nb\xc3\xa9")},
             {HEAD("P5\n0 2\n255\n\1\2")},
             {HEAD("P5\n1 2\n65536\n\1\2")},
             {HEAD("P5\n1 2\n255\1\2")},
             {HEAD("P52 2 255\n\1\2")},
             {HEAD("P6\n# a comment without an end")}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    if (mr_file_kind(row[i].bytes, row[i].n)) fail_msg("row %zu is of a kind", i);
    assert_null(mr_file_kind_sure(row[i].bytes, row[i].n));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_of_packers_and_of_python_are_known_by_name),
      cmocka_unit_test(a_sentence_ends_with_what_a_file_is),
      cmocka_unit_test(every_mark_is_known_and_says_what_to_do),
      cmocka_unit_test(a_head_counts_with_its_sum),
      cmocka_unit_test(ids_that_are_the_letters_of_a_mark_are_of_no_kind),
      cmocka_unit_test(text_and_numbers_are_of_no_kind),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
