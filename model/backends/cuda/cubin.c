/* A cubin is an ELF file.  Its section .nv.info is a list of attributes: a byte of form, a byte of
   kind, and two bytes that are the value, or with form 4 the size of the value that follows.  Two
   kinds hold a symbol's number and a number for that kernel. */
#include "model/backends/cuda/cubin.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum { FORM_SIZED = 4, KIND_FRAME = 0x11, KIND_REGISTERS = 0x2F };

typedef struct cubin {
  const char *image;
  size_t n;
  Elf64_Ehdr head;
} cubin_t;

static bool cubin_read(const cubin_t *c, uint64_t at, void *to, size_t bytes) {
  if (at > c->n || bytes > c->n - at) return false;
  memcpy(to, c->image + at, bytes);
  return true;
}

static bool cubin_section(const cubin_t *c, unsigned i, Elf64_Shdr *s) {
  return i < c->head.e_shnum &&
         cubin_read(c, c->head.e_shoff + (uint64_t)i * sizeof *s, s, sizeof *s) &&
         (s->sh_type == SHT_NOBITS || (s->sh_offset <= c->n && s->sh_size <= c->n - s->sh_offset));
}

/* Whether the text at `at` of a section of names is `name`. */
static bool cubin_is(const cubin_t *c, const Elf64_Shdr *names, uint64_t at, const char *name) {
  size_t len = strlen(name) + 1;
  return at < names->sh_size && len <= names->sh_size - at &&
         !memcmp(c->image + names->sh_offset + at, name, len);
}

static bool cubin_find(const cubin_t *c, const char *name, Elf64_Shdr *out) {
  Elf64_Shdr names;
  if (!cubin_section(c, c->head.e_shstrndx, &names) || names.sh_type == SHT_NOBITS) return false;
  for (unsigned i = 0; i < c->head.e_shnum; i++)
    if (cubin_section(c, i, out) && out->sh_type != SHT_NOBITS &&
        cubin_is(c, &names, out->sh_name, name))
      return true;
  return false;
}

/* The number of the function of that name among the symbols; 0, which no symbol has: none. */
static uint32_t cubin_symbol(const cubin_t *c, const char *kernel) {
  Elf64_Shdr symbols, names;
  if (!cubin_find(c, ".symtab", &symbols) || !cubin_section(c, symbols.sh_link, &names) ||
      names.sh_type == SHT_NOBITS)
    return 0;
  for (uint32_t i = 1; i < symbols.sh_size / sizeof(Elf64_Sym); i++) {
    Elf64_Sym s;
    if (!cubin_read(c, symbols.sh_offset + i * sizeof s, &s, sizeof s)) return 0;
    if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && cubin_is(c, &names, s.st_name, kernel)) return i;
  }
  return 0;
}

bool mr__cubin_usage(const void *image, size_t n, const char *kernel, int *registers, int *stack) {
  cubin_t c = {.image = image, .n = n};
  Elf64_Shdr info;
  if (!cubin_read(&c, 0, &c.head, sizeof c.head) || memcmp(c.head.e_ident, ELFMAG, SELFMAG) != 0 ||
      c.head.e_ident[EI_CLASS] != ELFCLASS64 || c.head.e_shentsize != sizeof(Elf64_Shdr) ||
      !cubin_find(&c, ".nv.info", &info))
    return false;
  uint32_t symbol = cubin_symbol(&c, kernel), value[2];
  *registers = -1, *stack = 0;
  for (uint64_t at = 0; symbol && info.sh_size - at >= 4;) {
    uint8_t form, kind;
    uint16_t size;
    const char *from = c.image + info.sh_offset + at;
    memcpy(&form, from, 1), memcpy(&kind, from + 1, 1), memcpy(&size, from + 2, 2);
    at += 4;
    if (form != FORM_SIZED) continue;
    if (size > info.sh_size - at) return false;
    at += size;
    if (size != sizeof value) continue;
    memcpy(value, from + 4, sizeof value);
    if (value[0] != symbol || value[1] > INT32_MAX) continue;
    if (kind == KIND_REGISTERS) *registers = (int)value[1];
    if (kind == KIND_FRAME) *stack = (int)value[1];
  }
  return *registers >= 0;
}
