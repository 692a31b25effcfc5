/* Finds the folder of shipped files from where this code lies, so that an installed tree can be
   moved.  The loader lists the program itself without a name. */
#include "base/share.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xio.h"

/* Sets *arg, the path of the loaded file that holds this function: 1 once it is found. */
static int share_find_loaded(struct dl_phdr_info *info, size_t size, void *arg) {
  uintptr_t here = (uintptr_t)share_find_loaded - info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || here < p->p_vaddr || here - p->p_vaddr >= p->p_memsz) continue;
    *(const char **)arg = info->dlpi_name;
    return 1;
  }
  return 0;
}

/* The folder of that file, without links; false if it cannot be found out. */
static bool share_beside(char folder[MR_PATH_MAX]) {
  const char *name = NULL;
  if (!dl_iterate_phdr(share_find_loaded, &name)) return false;
  if (!realpath(name && *name ? name : "/proc/self/exe", folder)) return false;
  *strrchr(folder, '/') = 0;
  return true;
}

static bool share_is(char *path, size_t n, const char *folder, const char *below,
                     const char *name) {
  int len = snprintf(path, n, "%s%s/%s", folder, below, name);
  return len >= 0 && (size_t)len < n && access(path, F_OK) == 0;
}

bool mr_share_find(const char *name, char *path, size_t n) {
  const char *own = getenv("MILLRACE_SHARE");
  char folder[MR_PATH_MAX];
  if (own && *own) return share_is(path, n, own, "", name);
  if (!share_beside(folder)) return false;
  return share_is(path, n, folder, "/share/millrace", name) ||
         share_is(path, n, folder, "/../share/millrace", name);
}
