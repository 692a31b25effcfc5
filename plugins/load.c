/* Loads a plug-in: opens the file (file.c decides whether it may be), checks that it was built for
   this library, and adds its stages, ops, models and losses, all or none.  A plug-in stays loaded
   until the process ends, since its constants are in use. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/control/table.h"
#include "plugins/file.h"
#include "plugins/plugin.h"

/* A plug-in that has been loaded, for good. */
typedef struct loaded {
  struct loaded *next;
  const mr_plugin_t *plugin;
  dev_t dev;
  ino_t ino;
  char *file, *origin; /* origin: "plug-in cutout (/lib/cutout.so)" */
} loaded_t;

static loaded_t *first;

int mr_plugin_count(void) {
  int n = 0;
  for (const loaded_t *l = first; l; l = l->next) n++;
  return n;
}

const mr_plugin_t *mr_plugin_at(int i, const char **file) {
  const loaded_t *l = first;
  while (i-- > 0) l = l->next;
  if (file) *file = l->file;
  return l->plugin;
}

/* ---- is it one of ours ---- */

static mr_err_t check_built_for(const char *file, const mr_plugin_t *p, mr_diag_t *diag) {
  static const struct {
    const char *name;
    size_t size;
  } here[] = {
#define MR_ROW(type) {#type, sizeof(type)},
      MR_PLUGIN_TYPES(MR_ROW)
#undef MR_ROW
  };
  _Static_assert(sizeof here / sizeof *here < MR_PLUGIN_SIZES, "mr_plugin_t.size has no room");
  if (p->abi != MR_PLUGIN_ABI)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%s: built for plug-in ABI %u, this program has %d; build it with this "
                   "version's headers",
                   file, p->abi, MR_PLUGIN_ABI);
  for (size_t i = 0; i < sizeof here / sizeof *here; i++)
    if (p->size[i] != here[i].size)
      return mr_fail(diag, MR_ERR_UNAVAILABLE,
                     "%s: built with other headers: its %s has %u bytes, here it has %zu; build it "
                     "with this version's headers",
                     file, here[i].name, p->size[i], here[i].size);
  return MR_OK;
}

/* A plug-in that carries the library would work on its own copy of every table. */
static mr_err_t check_has_no_library(const char *file, void *so, mr_diag_t *diag) {
  void *its = dlsym(so, "mr_registry_find"); /* in the file and what it links, not in the program */
  if (!its || its == (void *)mr_registry_find) return MR_OK;
  return mr_fail(diag, MR_ERR_UNAVAILABLE,
                 "%s: it contains its own copy of the millrace library; build it with `pkg-config "
                 "--cflags millrace-plugin` and do not link libmillrace",
                 file);
}

static mr_err_t load_check_name(const char *file, const mr_plugin_t *p, mr_diag_t *diag) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (!p->name || !*p->name || strspn(p->name, letters) != strlen(p->name))
    return mr_fail(diag, MR_ERR_CONFIG,
                   "%s: the plug-in's name is \"%.60s\", expected letters, digits, - and _", file,
                   p->name ? p->name : "");
  for (const loaded_t *l = first; l; l = l->next)
    if (!strcmp(l->plugin->name, p->name))
      return mr_fail(diag, MR_ERR_CONFIG, "%s: a plug-in called \"%s\" is loaded already, from %s",
                     file, p->name, l->file);
  return MR_OK;
}

/* ---- loading ---- */

/* The dynamic linker says the name it was given, which is a descriptor's. */
static const char *load_why_not(void) {
  const char *text = dlerror(), *colon = text ? strstr(text, ": ") : NULL;
  return !text ? "unknown error" : colon && !strncmp(text, "/proc", 5) ? colon + 2 : text;
}

/* The dynamic linker maps what the file's headers say and dies where a file ends before that, as
   one does that was not copied to its end. */
static mr_err_t check_whole(const char *file, int fd, int64_t size, mr_diag_t *diag) {
  ElfW(Ehdr) head;
  bool elf = pread(fd, &head, sizeof head, 0) == sizeof head &&
             !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_phentsize == sizeof(ElfW(Phdr));
  for (int i = 0; elf && i < head.e_phnum; i++) {
    ElfW(Phdr) part;
    if ((int64_t)head.e_phoff < 0 || (int64_t)head.e_phoff > size) elf = false;
    off_t at = elf ? (off_t)head.e_phoff + (off_t)sizeof part * i : 0;
    if (!elf || pread(fd, &part, sizeof part, at) != sizeof part ||
        part.p_offset > (uint64_t)size || part.p_filesz > (uint64_t)size - part.p_offset)
      return mr_fail(diag, MR_ERR_UNAVAILABLE,
                     "%s: cannot be loaded: the file ends within the code or data that it "
                     "announces; copy or build it again",
                     file);
  }
  return elf ? MR_OK
             : mr_fail(diag, MR_ERR_UNAVAILABLE,
                       "%s: not a millrace plug-in: it is not a shared object", file);
}

/* From the open file, so that it is the one that was checked.  NULL on failure. */
static void *link_library(const char *file, int fd, mr_diag_t *diag) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!so) mr_fail(diag, MR_ERR_UNAVAILABLE, "%s: cannot be loaded: %.700s", file, load_why_not());
  return so;
}

static mr_err_t find_plugin(const char *file, void *so, const mr_plugin_t **p, mr_diag_t *diag) {
  *p = dlsym(so, "mr_plugin");
  if (!*p)
    return mr_fail(diag, MR_ERR_UNAVAILABLE,
                   "%s: not a millrace plug-in: it has no constant mr_plugin", file);
  MR_TRY(check_built_for(file, *p, diag));
  MR_TRY(check_has_no_library(file, so, diag));
  return load_check_name(file, *p, diag);
}

static void destroy_loaded(loaded_t *l) {
  if (!l) return;
  free(l->file), free(l->origin), free(l);
}

static loaded_t *load_remember(const mr_plugin_t *p, const char *real, const struct stat *st) {
  loaded_t *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  *l = (loaded_t){.plugin = p, .dev = st->st_dev, .ino = st->st_ino, .file = strdup(real)};
  if (asprintf(&l->origin, "plug-in %s (%s)", p->name, real) < 0) l->origin = NULL;
  if (l->file && l->origin) return l;
  destroy_loaded(l);
  return NULL;
}

/* Stages that reg has not yet. */
static mr_err_t load_add_stages(const loaded_t *l, mr_registry_t *reg, mr_diag_t *diag) {
  const mr_stage_def_t *const *stages = l->plugin->stages;
  if (!stages || !*stages || mr_registry_find(reg, (*stages)->name) == *stages) return MR_OK;
  MR_TRY(mr_registry_check(reg, stages, l->origin, diag));
  mr_registry_add_from(reg, stages, l->origin);
  return MR_OK;
}

/* Nothing is added before everything has been checked. */
static mr_err_t add_all(loaded_t *l, mr_registry_t *reg, mr_diag_t *diag) {
  const mr_plugin_t *p = l->plugin;
  if (p->ops) MR_TRY(mr_ops_check(p->ops, l->origin, diag));
  if (p->models) MR_TRY(mr_models_check(p->models, l->origin, diag));
  if (p->losses) MR_TRY(mr_class_losses_check(p->losses, l->origin, diag));
  MR_TRY(load_add_stages(l, reg, diag));
  if (p->ops) mr_ops_add(p->ops, l->origin);
  if (p->models) mr_models_add(p->models, l->origin);
  if (p->losses) mr_class_losses_add(p->losses);
  return MR_OK;
}

static mr_err_t take_library(const char *file, const char *real, void *so, const struct stat *st,
                             mr_registry_t *reg, mr_diag_t *diag) {
  const mr_plugin_t *p;
  MR_TRY(find_plugin(file, so, &p, diag));
  loaded_t *l = load_remember(p, real, st), **end = &first;
  if (!l) return mr_no_memory(diag, "plug-in %s", file);
  mr_err_t e = add_all(l, reg, diag);
  if (e < 0) return destroy_loaded(l), e;
  while (*end) end = &(*end)->next;
  *end = l;
  return MR_OK;
}

mr_err_t mr_plugin_load(const char *file, mr_registry_t *reg, mr_diag_t *diag) {
  char real[PATH_MAX];
  struct stat st;
  int fd = mr__plugin_open(file, real, &st, diag);
  if (fd < 0) return (mr_err_t)fd;
  for (const loaded_t *l = first; l; l = l->next)
    if (l->dev == st.st_dev && l->ino == st.st_ino) return close(fd), load_add_stages(l, reg, diag);
  mr_err_t e = check_whole(file, fd, st.st_size, diag);
  void *so = e < 0 ? NULL : link_library(file, fd, diag);
  if (!so) return close(fd), e < 0 ? e : MR_ERR_UNAVAILABLE;
  /* The descriptor stays open for good: the linker knows a library by its name, so that the next
     file must have another number. */
  e = take_library(file, real, so, &st, reg, diag);
  if (e < 0) dlclose(so);
  return e;
}
