/* One table of the marks with which files of other programs begin, so that every reader knows the
   same ones and calls them the same.  A mark that most rows of numbers or texts may begin with has
   no place here: the reader of text asks for those itself. */
#include "base/file_kind.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/xio.h"

#define AT(place, text) place, text, sizeof(text) - 1
#define MARK(text) AT(0, text)

/* What to do with it, whatever was wanted: another stage reads it, or it has to be unpacked. */
#define READ_BY(what, stage) \
  { what, NULL, NULL, "stage " stage " reads it", NULL }
#define DO(what, instead) \
  { what, NULL, NULL, instead, NULL }
#define PACKED(packer, unpack) \
  { "packed by " packer, packer, unpack, "unpack it first (" unpack ")", NULL }
/* What to do unless the reader that refuses it knows better. */
#define TABLE(what) \
  { what, NULL, NULL, NULL, "write it as CSV (pandas: to_csv), which stage table reads" }
#define ARRAYS(what) \
  { what, NULL, NULL, NULL, "write its arrays with numpy.savez, which stage npz reads" }
#define PICTURE(what) DO(what, "stage folder reads pictures, in a folder a class")
#define OTHER_PICTURE(what) DO(what, "write it as PNG or JPEG, which stage folder reads")
#define NO_READER(what) DO(what, "no stage reads it")

#define PICKLE ARRAYS("a Python pickle")
#define SERVED "if a server has answered so, ask it for the file again"

/* UTF-8 is not decoded: bytes above 0x7F do for text. */
static bool file_is_text(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] == 0x7F || (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')) return false;
  return true;
}

/* ---- what follows a mark ---- */

/* Ids of tokens may be the letters of a short mark by chance, so that what must follow it is looked
   at, too.  Each returns false if one of the n bytes that are there contradicts: of a file that was
   cut short within its head, the mark alone counts. */
typedef bool follows_fn(const unsigned char *p, size_t n);

/* No reserved flag, the level and the system that programs write, and then no reserved block. */
static bool follows_gzip(const unsigned char *p, size_t n) {
  return (n <= 3 || !(p[3] & 0xE0)) && (n <= 8 || p[8] == 0 || p[8] == 2 || p[8] == 4) &&
         (n <= 9 || p[9] <= 19 || p[9] == 255) && (n <= 10 || p[3] || (p[10] >> 1 & 3) != 3);
}

/* No reserved bit, and behind the head, whose length its first byte says, a block that there is. */
static bool follows_zstd(const unsigned char *p, size_t n) {
  static const unsigned char dictionary[] = {0, 1, 2, 4}, size[] = {0, 2, 4, 8};
  if (n <= 4 || p[4] & 8) return n <= 4;
  bool single = p[4] & 0x20;
  size_t at =
      5 + (size_t)!single + dictionary[p[4] & 3] + size[p[4] >> 6] + (single && !(p[4] >> 6));
  return at + 2 >= n || ((p[at] >> 1 & 3) != 3 && p[at + 2] <= 0x10); /* at most 128 KiB */
}

/* The level and a block, or the end of a stream without one: the digits of pi, or of its root. */
static bool follows_bzip2(const unsigned char *p, size_t n) {
  static const unsigned char block[] = "\x31\x41\x59\x26\x53\x59",
                             end[] = "\x17\x72\x45\x38\x50\x90";
  size_t some = n < 10 ? n : 10;
  return n <= 3 ||
         (p[3] >= '1' && p[3] <= '9' &&
          (some <= 4 || !memcmp(p + 4, block, some - 4) || !memcmp(p + 4, end, some - 4)));
}

static bool follows_xz(const unsigned char *p, size_t n) {
  return (n <= 5 || !p[5]) && (n <= 6 || !p[6]) && (n <= 7 || p[7] <= 15);
}

/* Version 1 without reserved bits, and a size of blocks that there is. */
static bool follows_lz4(const unsigned char *p, size_t n) {
  return (n <= 4 || (p[4] & 0xC2) == 0x40) && (n <= 5 || (!(p[5] & 0x8F) && p[5] >= 0x40));
}

/* A version up to 6.3, a method that there is, and a name without controls. */
static bool follows_zip(const unsigned char *p, size_t n) {
  if ((n > 4 && p[4] > 63) || (n > 5 && p[5] > 20) || (n > 8 && p[8] > 99) || (n > 9 && p[9]))
    return false;
  size_t name = n > 27 ? p[26] | (size_t)p[27] << 8 : 0;
  for (size_t i = 30; i < n && i < 30 + name; i++)
    if (p[i] < ' ') return false;
  return n <= 27 || name > 0;
}

/* What every Avro file says among its first entries. */
static bool follows_avro(const unsigned char *p, size_t n) {
  static const char word[] = "avro.";
  for (size_t i = 4; i + sizeof word - 1 <= n; i++)
    if (!memcmp(p + i, word, sizeof word - 1)) return true;
  return n <= 16;
}

/* Compact Thrift: a number of a few, and the next field of a page, or of a footer without pages. */
static bool follows_parquet(const unsigned char *p, size_t n) {
  return (n <= 4 || p[4] == 0x15) && (n <= 5 || p[5] <= 6) &&
         (n <= 6 || p[6] == 0x15 || p[6] == 0x19);
}

/* The mark is padded to 8 bytes. */
static bool follows_arrow(const unsigned char *p, size_t n) {
  for (size_t i = p[0] == 'F' ? 4 : 6; i < 8 && i < n; i++)
    if (p[i]) return false;
  return true;
}

/* Text, whatever its bytes above 0x7F are. */
static bool follows_text(const unsigned char *p, size_t n) {
  for (size_t i = 0; i < n && i < MR_FILE_LOOK; i++)
    if (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t') return false;
  return true;
}

/* A segment of JPEG: its length, what it begins with, and behind it, if it is there, a marker. */
static bool follows_jpeg(const unsigned char *p, size_t n) {
  enum { TABLES = 0xC4, QUANTIZERS = 0xDB, APP0 = 0xE0, APP15 = 0xEF };
  if (n <= 3 || p[3] < 0xC0 || p[3] == 0xFF) return n <= 3;
  if (n <= 9) return true;
  size_t length = (size_t)p[4] << 8 | p[5];
  if (length < 2 || (4 + length < n && p[4 + length] != 0xFF)) return false;
  if (p[3] == TABLES || p[3] == QUANTIZERS) return p[6] <= 0x1F && (p[6] & 15) <= 3;
  for (int i = 6; i < 9 && p[3] >= APP0 && p[3] <= APP15; i++) /* "JFIF", "Exif", "Adobe" */
    if (p[i] < ' ' || p[i] > '~') return false;
  return true;
}

static bool is_name_byte(unsigned char c) { return isalnum(c) || c == '_' || c == '.'; }

/* Two lines: the names of a module and of what it has. */
static bool follows_pickled_class(const unsigned char *p, size_t n) {
  size_t at = 3;
  while (at < n && is_name_byte(p[at])) at++;
  return at == n || (at > 4 && p[at] == '\n' && (at + 1 == n || is_name_byte(p[at + 1])));
}

/* Where it is remembered, its end, or that entries follow: the first is a number, a text or
   another list. */
static bool follows_pickled_list(const unsigned char *p, size_t n) {
  static const char entry[] = "KMJGXUN]}(c\x88\x89\x8a";
  return n <= 3 || (p[3] == '.' && n == 4) || (p[3] == 'q' && (n <= 4 || p[4] <= 1)) ||
         (p[3] == '(' && (n <= 4 || memchr(entry, p[4], sizeof entry - 1)));
}

/* The length of a frame of less than a terabyte. */
static bool follows_pickle_frame(const unsigned char *p, size_t n) {
  for (size_t i = 8; i < 11 && i < n; i++)
    if (p[i]) return false;
  return true;
}

static uint64_t bits_at(const unsigned char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

/* The number of bits of LZW codes and no reserved bit, and codes of nine bits, each a byte, the
   mark of a new table, or one that the codes before it have made. */
static bool follows_compress(const unsigned char *p, size_t n) {
  enum { CODES = 32, BITS = 9 };
  if (n <= 2 || (p[2] & 0x60) || (p[2] & 0x1F) < BITS || (p[2] & 0x1F) > 16) return n <= 2;
  for (size_t i = 0; i < CODES && 4 + i * BITS / 8 < n; i++) {
    const unsigned char *at = p + 3 + i * BITS / 8;
    if (((at[0] | (unsigned)at[1] << 8) >> i * BITS % 8 & 0x1FF) > 256 + i) return false;
  }
  return true;
}

/* The size of a dictionary as programs choose it, and of the data: unknown, or below a terabyte. */
static bool follows_lzma(const unsigned char *p, size_t n) {
  static const unsigned char unknown[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  return n > 13 && !p[1] && !p[2] && !(p[3] & (p[3] - 1)) && !(p[4] & (p[4] - 1)) &&
         !p[3] != !p[4] && (!memcmp(p + 5, unknown, 8) || bits_at(p + 5) >> 40 == 0) && !p[13];
}

/* The size of a block. */
static bool follows_old_lz4(const unsigned char *p, size_t n) {
  return n <= 7 || (!p[7] && p[6] < 0x90 && (p[4] || p[5] || p[6]));
}

/* The first name in a zip file, of *n bytes; its data follow at *data. */
static const char *first_member(const unsigned char *p, size_t n, size_t *length, size_t *data) {
  *length = n > 30 ? p[26] | (size_t)p[27] << 8 : 0;
  *data = *length + 30 + (n > 30 ? p[28] | (size_t)p[29] << 8 : 0);
  return n > 30 && *length && *length < n - 30 ? (const char *)p + 30 : NULL;
}

static bool member_ends(const unsigned char *p, size_t n, const char *const ending[]) {
  size_t length, data;
  const char *name = first_member(p, n, &length, &data);
  for (int i = 0; name && ending[i]; i++) {
    size_t k = strlen(ending[i]);
    if (length >= k && !memcmp(name + length - k, ending[i], k)) return follows_zip(p, n);
  }
  return false;
}

static bool follows_npz(const unsigned char *p, size_t n) {
  return member_ends(p, n, (const char *const[]){".npy", NULL});
}

static bool follows_torch(const unsigned char *p, size_t n) {
  return member_ends(p, n, (const char *const[]){"/data.pkl", "/.format_version", NULL});
}

/* What Excel, LibreOffice and Python's libraries write first. */
static bool follows_office(const unsigned char *p, size_t n) {
  static const char *const first[] = {"[Content_Types].xml", "_rels/.rels", "docProps/app.xml",
                                      "docProps/core.xml", NULL};
  static const char open[] = "application/vnd.oasis.opendocument";
  size_t length, data;
  const char *name = first_member(p, n, &length, &data);
  if (!name) return false;
  if (length == 8 && !memcmp(name, "mimetype", 8))
    return data + sizeof open < n && !memcmp(p + data, open, sizeof open - 1);
  return member_ends(p, n, first);
}

/* The length of the header, and the header, which is text. */
static bool follows_safetensors(const unsigned char *p, size_t n) {
  enum { LEAST = 16 /* {"a":{"dtype": .. */, MOST = 100000000 /* as its library has it */ };
  uint64_t length = n >= 8 ? bits_at(p) : 0;
  if (length < LEAST || length > MOST) return false;
  return follows_text(p + 8, length < n - 8 ? (size_t)length : n - 8);
}

/* The sum of the bytes of the first header, in octal. */
static bool follows_tar(const unsigned char *p, size_t n) {
  enum { HEADER = 512, SUM = 148, SUM_BYTES = 8 };
  unsigned sum = SUM_BYTES * ' ', said = 0;
  if (n < HEADER) return false;
  for (size_t i = 0; i < HEADER; i++) sum += i < SUM || i >= SUM + SUM_BYTES ? p[i] : 0;
  for (size_t i = SUM; i < SUM + SUM_BYTES; i++)
    if (p[i] >= '0' && p[i] <= '7') said = 8 * said + p[i] - '0';
  return said == sum;
}

/* The length of the first record, below a terabyte, and its checksum. */
static bool follows_tfrecord(const unsigned char *p, size_t n) {
  uint32_t crc =
      n < 12 ? 0 : p[8] | (uint32_t)p[9] << 8 | (uint32_t)p[10] << 16 | (uint32_t)p[11] << 24;
  return n >= 12 && bits_at(p) >> 40 == 0 && crc == mr_crc32c_mask(mr_crc32c(p, 8));
}

/* The number of fields, the size of a page, a power of two, two numbers below 2^48, and the first
   field's type and name. */
static bool follows_beton(const unsigned char *p, size_t n) {
  if (n < 27) return false;
  unsigned fields = p[2] | (unsigned)p[3] << 8;
  uint32_t page = (uint32_t)bits_at(p + 4);
  return fields >= 1 && fields <= 256 && page >= 4096 && !(page & (page - 1)) &&
         bits_at(p + 8) >> 48 == 0 && bits_at(p + 16) >> 48 == 0 && (p[24] <= 6 || p[24] == 255) &&
         isalnum(p[25]);
}

/* The version, and two counts. */
static bool follows_gguf(const unsigned char *p, size_t n) {
  return n >= 24 && (bits_at(p) >> 32 == 2 || bits_at(p) >> 32 == 3) && bits_at(p + 8) >> 32 == 0 &&
         bits_at(p + 16) >> 32 == 0;
}

static bool follows_pdf(const unsigned char *p, size_t n) {
  return n >= 8 && (p[5] == '1' || p[5] == '2') && p[6] == '.' && p[7] >= '0' && p[7] <= '9';
}

static bool is_riff_of(const unsigned char *p, size_t n, const char *what) {
  return n >= 12 && !memcmp(p + 8, what, 4);
}
static bool follows_webp(const unsigned char *p, size_t n) { return is_riff_of(p, n, "WEBP"); }
static bool follows_wav(const unsigned char *p, size_t n) { return is_riff_of(p, n, "WAVE"); }
static bool follows_avi(const unsigned char *p, size_t n) { return is_riff_of(p, n, "AVI "); }

/* The size of the first box, a short one, and a brand of four letters. */
static bool follows_mp4(const unsigned char *p, size_t n) {
  if (n < 12 || p[0] || p[1] || p[2] || p[3] < 16 || p[3] % 4) return false;
  for (int i = 8; i < 12; i++)
    if (p[i] < ' ' || p[i] > '~') return false;
  return true;
}

static bool follows_still(const unsigned char *p, size_t n) {
  static const char *const brand[] = {"avif", "avis", "heic", "heix", "mif1", "msf1"};
  for (size_t i = 0; i < sizeof brand / sizeof *brand && follows_mp4(p, n); i++)
    if (!memcmp(p + 8, brand[i], 4)) return true;
  return false;
}

/* A version of ID3, and a size in sevens of bits. */
static bool follows_id3(const unsigned char *p, size_t n) {
  return n >= 10 && p[3] >= 2 && p[3] <= 4 && p[4] < 0xFF && !((p[6] | p[7] | p[8] | p[9]) & 0x80);
}

/* No reserved byte, a place behind the head, and a head of a size that there is. */
static bool follows_bmp(const unsigned char *p, size_t n) {
  return n >= 18 && !p[6] && !p[7] && !p[8] && !p[9] && p[10] >= 26 && !p[12] && !p[13] &&
         (p[14] == 12 || p[14] == 40 || p[14] == 56 || p[14] == 108 || p[14] == 124) && !p[15] &&
         !p[16] && !p[17];
}

/* A few pictures, and the first one's colours, bits and place. */
static bool follows_ico(const unsigned char *p, size_t n) {
  static const unsigned char bits[] = {1, 4, 8, 16, 24, 32};
  return n >= 22 && p[4] >= 1 && p[4] <= 20 && !p[5] && !p[9] && p[10] <= 1 && !p[11] &&
         memchr(bits, p[12], sizeof bits) && !p[13] && p[18] >= 22 && !p[21];
}

/* Where a number in [1,most] of a head of Netpbm ends, which blanks or comments precede; 0: there
   is none, or it is not followed by a blank. */
static size_t skip_netpbm_number(const unsigned char *p, size_t n, size_t at, long most) {
  size_t blanks = at;
  long v = 0;
  while (at < n && (isspace(p[at]) || p[at] == '#')) {
    bool comment = p[at] == '#';
    while (comment && at < n && p[at] != '\n') at++;
    at += at < n;
  }
  if (at == blanks) return 0;
  while (at < n && isdigit(p[at]) && v <= most) v = 10 * v + p[at++] - '0';
  return v >= 1 && v <= most && at < n && isspace(p[at]) ? at : 0;
}

/* The width, the height and, but for bits, the largest value, then one blank and bytes that are no
   text: rows of numbers may begin as the head does.  Text has no byte 0xFF, as white pixels are. */
static bool follows_netpbm(const unsigned char *p, size_t n) {
  enum { SIDE_MAX = 1000000000, VALUE_MAX = 65535 };
  size_t at = skip_netpbm_number(p, n, 2, SIDE_MAX);
  if (at) at = skip_netpbm_number(p, n, at, SIDE_MAX);
  if (at && p[1] != '4') at = skip_netpbm_number(p, n, at, VALUE_MAX);
  return at && (!file_is_text(p + at + 1, n - at - 1) || memchr(p + at + 1, 0xFF, n - at - 1));
}

/* A place of the first directory behind the head. */
static bool follows_tiff(const unsigned char *p, size_t n) {
  return n >= 8 &&
         (p[0] == 'I' ? p[4] >= 8 || p[5] || p[6] || p[7] : p[7] >= 8 || p[6] || p[5] || p[4]);
}

/* 64 bits, little-endian as everywhere, version 1. */
static bool follows_elf(const unsigned char *p, size_t n) {
  return n >= 7 && (p[4] == 1 || p[4] == 2) && (p[5] == 1 || p[5] == 2) && p[6] == 1;
}

/* Compact protocol: the first stripe begins with a stream of its own, which has no mark. */
static bool follows_orc(const unsigned char *p, size_t n) {
  for (size_t i = 3; i < n; i++)
    if (p[i] < ' ' && p[i] != '\n' && p[i] != '\r' && p[i] != '\t') return true;
  return false;
}

/* The length of a schema's message, padded to eights, and a table of flatbuffers in it. */
static bool follows_arrow_stream(const unsigned char *p, size_t n) {
  return n >= 16 && !(p[4] & 7) && !p[7] && !p[6] && (p[4] || p[5]) && p[8] >= 8 && p[8] <= 64 &&
         !p[9] && !p[10] && !p[11];
}

static bool follows_netcdf(const unsigned char *p, size_t n) {
  return n >= 12 && (p[3] == 1 || p[3] == 2 || p[3] == 5) && !p[4];
}

/* Rows whose mark alone does not tell kinds apart, or is too short to count alone, are `always`
   judged by what follows, also of a file that is refused anyway. */
static const struct {
  size_t at;
  const char *mark;
  size_t n;
  mr_file_kind_t kind;
  follows_fn *follows; /* NULL: the mark is long enough */
  bool always;
} known[] = {
    /* what stages here read */
    {MARK("\x93NUMPY"), READ_BY("an .npy file", "npy"), NULL, false},
    {MARK("PK\3\4"), READ_BY("an .npz file", "npz"), follows_npz, true},
    {AT(4, "\0\0\0\0{\""), READ_BY("a safetensors file", "safetensors"), follows_safetensors, true},
    {AT(257, "ustar"), READ_BY("a tar archive", "tar"), follows_tar, true},
    {AT(5, "\0\0\0"), READ_BY("a TFRecord file", "tfrecord"), follows_tfrecord, true},
    {MARK("\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"),
     READ_BY("an ArrayRecord or Riegeli file", "arrayrecord"), NULL, false},
    {MARK("\2\0"), READ_BY("an FFCV file (.beton)", "beton"), follows_beton, true},
    {MARK("MMIDIDX\0\0"), DO("an index of Megatron-LM", "stage tokens reads the .bin beside it"),
     NULL, false},
    {MARK("MRSHARD1"), DO("an index that millrace made", "name the file that it stands for"), NULL,
     false},

    /* packed */
    {MARK("\x1f\x8b\x08"), PACKED("gzip", "gunzip"), follows_gzip, false},
    {MARK("\x28\xb5\x2f\xfd"), PACKED("zstd", "unzstd"), follows_zstd, false},
    {MARK("BZh"), PACKED("bzip2", "bunzip2"), follows_bzip2, false},
    {MARK("\xfd\x37\x7a\x58\x5a"), PACKED("xz", "unxz"), follows_xz, false},
    {MARK("\x5d\0\0"), PACKED("lzma", "unlzma"), follows_lzma, true},
    {MARK("\x04\x22\x4d\x18"), PACKED("lz4", "unlz4"), follows_lz4, false},
    {MARK("\x02\x21\x4c\x18"), PACKED("lz4", "unlz4"), follows_old_lz4, false},
    {MARK("\x1f\x9d"), PACKED("compress", "uncompress"), follows_compress, true},
    {MARK("\xff\x06\0\0sNaPpY"), PACKED("snappy", "snzip -d"), NULL, false},
    {MARK("LZIP\1"), PACKED("lzip", "lzip -d"), NULL, false},
    {MARK("7z\xBC\xAF\x27\x1C\0"), PACKED("7z", "7z x"), NULL, false},
    {MARK("Rar!\x1a\x07\0"), PACKED("rar", "unrar x"), NULL, false},
    {MARK("Rar!\x1a\x07\1\0"), PACKED("rar", "unrar x"), NULL, false},

    /* tables */
    {MARK("PAR1"), TABLE("a Parquet file"), follows_parquet, false},
    {MARK("ARROW1"), TABLE("an Arrow file"), follows_arrow, false},
    {MARK("\xff\xff\xff\xff"), TABLE("an Arrow stream"), follows_arrow_stream, true},
    {MARK("FEA1"), TABLE("a Feather file"), follows_arrow, false},
    {MARK("ORC"), TABLE("an ORC file"), follows_orc, true},
    {MARK("Obj\1"), TABLE("an Avro file"), follows_avro, false},
    {MARK("SQLite format 3"), TABLE("a database of SQLite"), NULL, false},
    {MARK("PK\3\4"), TABLE("a spreadsheet or another office document (.xlsx, .ods)"),
     follows_office, true},
    {MARK("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
     TABLE("an old spreadsheet or another office document (.xls)"), NULL, false},
    {MARK("r\2\1\0"), TABLE("a file of Stata"), NULL, false},
    {MARK("s\2\1\0"), TABLE("a file of Stata"), NULL, false},
    {MARK("<stata_dta>"), TABLE("a file of Stata"), NULL, false},
    {MARK("$FL2@(#)"), TABLE("a file of SPSS"), NULL, false},
    {MARK("\0\0\0\0\0\0\0\0\0\0\0\0\xc2\xea\x81\x60\xb3\x14\x11\xcf"), TABLE("a file of SAS"), NULL,
     false},

    /* arrays */
    {MARK("\x89HDF\r\n"), ARRAYS("an HDF5 file"), NULL, false},
    {MARK("MATLAB 5.0 MAT-file"), ARRAYS("a file of MATLAB"), NULL, false},
    {MARK("CDF"), ARRAYS("a NetCDF file"), follows_netcdf, true},
    {MARK("GGUF"), NO_READER("a model of llama.cpp (GGUF)"), follows_gguf, true},
    {MARK("PK\3\4"), ARRAYS("a file of torch.save"), follows_torch, true},
    {MARK("\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19"), ARRAYS("a file of torch.save"), NULL,
     false},
    /* protocols 2 and 3 with a dict, a list or a class, 4 and 5 with a frame */
    {MARK("\x80\2}"), PICKLE, follows_pickled_list, false},
    {MARK("\x80\2]"), PICKLE, follows_pickled_list, false},
    {MARK("\x80\2c"), PICKLE, follows_pickled_class, false},
    {MARK("\x80\3}"), PICKLE, follows_pickled_list, false},
    {MARK("\x80\3]"), PICKLE, follows_pickled_list, false},
    {MARK("\x80\3c"), PICKLE, follows_pickled_class, false},
    {MARK("\x80\4\x95"), PICKLE, follows_pickle_frame, false},
    {MARK("\x80\5\x95"), PICKLE, follows_pickle_frame, false},
    {MARK("PK\3\4"), DO("a zip file", "unpack it first (unzip)"), follows_zip, false},
    {MARK("PK\5\6\0\0\0\0"), NO_READER("an empty zip file"), NULL, false},

    /* pictures, sound, films, texts */
    {MARK("\x89PNG\r\n"), PICTURE("a PNG picture"), NULL, false},
    {MARK("\xff\xd8\xff"), PICTURE("a JPEG picture"), follows_jpeg, false},
    {MARK("RIFF"), PICTURE("a WebP picture"), follows_webp, true},
    {MARK("GIF87a"), OTHER_PICTURE("a GIF picture"), NULL, false},
    {MARK("GIF89a"), OTHER_PICTURE("a GIF picture"), NULL, false},
    {MARK("BM"), OTHER_PICTURE("a BMP picture"), follows_bmp, true},
    {MARK("\0\0\1\0"), OTHER_PICTURE("an icon"), follows_ico, true},
    {MARK("P4"), OTHER_PICTURE("a picture of Netpbm"), follows_netpbm, true},
    {MARK("P5"), OTHER_PICTURE("a picture of Netpbm"), follows_netpbm, true},
    {MARK("P6"), OTHER_PICTURE("a picture of Netpbm"), follows_netpbm, true},
    {MARK("II*\0"), OTHER_PICTURE("a TIFF picture"), follows_tiff, true},
    {MARK("MM\0*"), OTHER_PICTURE("a TIFF picture"), follows_tiff, true},
    {AT(4, "ftyp"), OTHER_PICTURE("an AVIF or HEIF picture"), follows_still, true},
    {MARK("\0\0\0\x0cjP  \r\n"), OTHER_PICTURE("a JPEG 2000 picture"), NULL, false},
    {MARK("RIFF"), NO_READER("a WAV file"), follows_wav, true},
    {MARK("RIFF"), NO_READER("an AVI film"), follows_avi, true},
    {MARK("OggS\0\2\0\0\0\0\0\0\0"), NO_READER("an Ogg file"), NULL, false},
    {MARK("fLaC\0\0\0\x22"), NO_READER("a FLAC file"), NULL, false},
    {MARK("fLaC\x80\0\0\x22"), NO_READER("a FLAC file"), NULL, false},
    {MARK("ID3"), NO_READER("an MP3 file"), follows_id3, true},
    {AT(4, "ftyp"), NO_READER("an MP4 film"), follows_mp4, true},
    {MARK("%PDF-"), NO_READER("a PDF"), follows_pdf, true},
    {MARK("\x7f"
          "ELF"),
     NO_READER("a program (ELF)"), follows_elf, true},
    {MARK("version https://git-lfs.github.com/spec/"),
     DO("a pointer of Git LFS", "git lfs pull fetches the file that it stands for"), NULL, false},
    {MARK("<!DOCTYPE html"), DO("a web page", SERVED), follows_text, false},
    {MARK("<!doctype html"), DO("a web page", SERVED), follows_text, false},
    {MARK("<!DOCTYPE HTML"), DO("a web page", SERVED), follows_text, false},
    {MARK("<HTML"), DO("a web page", SERVED), follows_text, false},
    {MARK("<table"), TABLE("a table of HTML"), follows_text, false},
    {MARK("<html"), DO("a web page", SERVED), follows_text, false},
    {MARK("<?xml"), DO("XML", SERVED), follows_text, false},
};

static const mr_file_kind_t *find_kind(const void *bytes, size_t n, bool sure) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (n >= known[i].at + known[i].n &&
        !memcmp((const char *)bytes + known[i].at, known[i].mark, known[i].n) &&
        ((!sure && !known[i].always) || !known[i].follows || known[i].follows(bytes, n)))
      return &known[i].kind;
  return NULL;
}

const mr_file_kind_t *mr_file_kind(const void *bytes, size_t n) {
  return find_kind(bytes, n, false);
}

const mr_file_kind_t *mr_file_kind_sure(const void *bytes, size_t n) {
  return find_kind(bytes, n, true);
}

/* The kind of a file that is refused anyway: text that begins with the letters of a short mark, as
   a column's name may, is none. */
static const mr_file_kind_t *kind_of_refused(const void *bytes, size_t n) {
  const mr_file_kind_t *sure = mr_file_kind_sure(bytes, n);
  return sure || file_is_text(bytes, n) ? sure : mr_file_kind(bytes, n);
}

const char *mr_file_described(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  const mr_file_kind_t *kind = kind_of_refused(bytes, n);
  size_t at = 0;
  if (kind) return kind->what;
  if (n < 16 || !file_is_text(p, n)) return NULL;
  if (!memcmp(p, "\xEF\xBB\xBF", 3)) at = 3;
  while (at < n && strchr(" \t\r\n", p[at])) at++;
  bool object = at + 1 < n && p[at] == '{', list = at + 1 < n && p[at] == '[';
  while (object && at + 1 < n && !(p[at] == '\n' && p[at + 1] == '{')) at++;
  if (object && at + 1 < n) return "JSON lines";
  return object || list ? "JSON" : "text";
}

const char *mr_file_kind_hint(const void *bytes, size_t n, char *text, size_t size) {
  const mr_file_kind_t *kind = kind_of_refused(bytes, n);
  const char *what = mr_file_described(bytes, n);
  text[0] = 0;
  const char *instead = kind && kind->instead ? kind->instead : kind ? kind->usual : NULL;
  if (what && instead)
    snprintf(text, size, "; it is %s: %s", what, instead);
  else if (what)
    snprintf(text, size, "; it is %s", what);
  return text;
}

const char *mr_file_hint(const char *path, char *text, size_t size) {
  unsigned char bytes[MR_FILE_LOOK];
  FILE *f = mr_open_regular(path);
  size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
  if (f) fclose(f);
  return mr_file_kind_hint(bytes, n, text, size);
}
