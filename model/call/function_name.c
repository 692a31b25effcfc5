/* Exported functions are known to the dynamic linker.  Static ones, and those of a program that
   exports nothing, are in the table of symbols of its file, which is mapped once.  The file is the
   one that the process runs, but it may have been replaced since: all that it says is checked. */
#include "model/call/function_name.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OBJECTS = 32 }; /* files that are mapped; of others exported names are known */

typedef struct object {
  const struct link_map *map;
  const unsigned char *bytes; /* mapped; NULL: it cannot be read */
  size_t size;
} object_t;

struct mr__functions {
  object_t object[OBJECTS];
  int n;
};

mr__functions_t *mr__functions_create(void) { return calloc(1, sizeof(mr__functions_t)); }

void mr__functions_destroy(mr__functions_t *f) {
  for (int i = 0; f && i < f->n; i++)
    if (f->object[i].bytes) munmap((void *)(uintptr_t)f->object[i].bytes, f->object[i].size);
  free(f);
}

static void map_object(object_t *o) {
  const char *path = *o->map->l_name ? o->map->l_name : "/proc/self/exe";
  struct stat is;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (!fstat(fd, &is) && S_ISREG(is.st_mode) && is.st_size > 0) {
    void *at = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at != MAP_FAILED) o->bytes = at, o->size = (size_t)is.st_size;
  }
  close(fd);
}

static const object_t *mapped_object(mr__functions_t *f, const struct link_map *map) {
  for (int i = 0; i < f->n; i++)
    if (f->object[i].map == map) return &f->object[i];
  if (f->n == OBJECTS) return NULL;
  object_t *o = &f->object[f->n++];
  *o = (object_t){.map = map};
  map_object(o);
  return o;
}

/* n elements of `each` bytes at an offset; NULL if they do not lie in the file, aligned. */
static const void *file_part(const object_t *o, uint64_t at, uint64_t n, uint64_t each) {
  bool fits = at <= o->size && n <= (o->size - at) / each && at % sizeof(uint64_t) == 0;
  return fits ? o->bytes + at : NULL;
}

/* The function of a table that holds an address; NULL: none does. */
static const char *find_in_table(const object_t *o, const ElfW(Shdr) * table,
                                 const ElfW(Shdr) * names, uint64_t address) {
  uint64_t n = table->sh_size / sizeof(ElfW(Sym));
  const ElfW(Sym) *symbol = file_part(o, table->sh_offset, n, sizeof *symbol);
  if (!symbol || names->sh_offset > o->size || names->sh_size > o->size - names->sh_offset)
    return NULL;
  const char *text = (const char *)o->bytes + names->sh_offset;
  for (uint64_t i = 0; i < n; i++) {
    const ElfW(Sym) *s = &symbol[i];
    if ((s->st_info & 15) != STT_FUNC || !s->st_shndx) continue;
    if (address < s->st_value || address - s->st_value >= s->st_size) continue;
    if (s->st_name >= names->sh_size) continue;
    size_t room = names->sh_size - s->st_name;
    if (memchr(text + s->st_name, 0, room)) return text + s->st_name;
  }
  return NULL;
}

static const char *find_in_file(const object_t *o, uint64_t address) {
  const ElfW(Ehdr) *head = o->bytes ? file_part(o, 0, 1, sizeof *head) : NULL;
  if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      head->e_shentsize != sizeof(ElfW(Shdr)))
    return NULL;
  const ElfW(Shdr) *section = file_part(o, head->e_shoff, head->e_shnum, sizeof *section);
  for (int i = 0; section && i < head->e_shnum; i++) {
    const ElfW(Shdr) *s = &section[i];
    if (s->sh_type != SHT_SYMTAB || s->sh_link >= head->e_shnum) continue;
    const char *name = find_in_table(o, s, &section[s->sh_link], address);
    if (name) return name;
  }
  return NULL;
}

void mr__function_at(mr__functions_t *f, const void *pc, char *name, size_t n) {
  const char *before = (const char *)pc - 1, *found = NULL;
  struct link_map *map = NULL;
  Dl_info is = {0};
  if (!dladdr1(before, &is, (void **)&map, RTLD_DL_LINKMAP)) {
    snprintf(name, n, "%p", pc);
    return;
  }
  if (is.dli_sname) found = is.dli_sname;
  const object_t *o = !found && f && map ? mapped_object(f, map) : NULL;
  if (o) found = find_in_file(o, (uint64_t)((uintptr_t)before - (uintptr_t)map->l_addr));
  const char *file = is.dli_fname && *is.dli_fname ? is.dli_fname : "program";
  const char *slash = strrchr(file, '/');
  if (found)
    snprintf(name, n, "%s", found);
  else
    snprintf(name, n, "%s+%#zx", slash ? slash + 1 : file,
             (size_t)((uintptr_t)before - (uintptr_t)is.dli_fbase));
}
