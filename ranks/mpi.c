/* Which MPI library is for this process.  The launcher decides: a library of another family takes
   each process for a job of its own. */
#include "ranks/mpi.h"

#include <string.h>

#include "base/library.h"

const mr_mpi_library_t mr_mpi_libraries[] = {
    {"libmpi.so.40", "Open MPI", "libopenmpi3", &mr__mpi_open_mpi},
    {"libmpich.so.12", "MPICH", "libmpich12", &mr__mpi_mpich},
    {"libmpi.so.12", "MPICH", "libmpich12", &mr__mpi_mpich},
    {0}};

bool mr_mpi_fits(const mr_mpi_library_t *m, const char *mpi) {
  if (!strcmp(mpi, "PMI of Slurm")) return !strcmp(m->family, "MPICH");
  if (!strcmp(mpi, "PMIx of Slurm")) return !strcmp(m->family, "Open MPI");
  return !strcmp(mpi, m->family);
}

const mr_mpi_library_t *mr_mpi_library_find(const mr_launch_t *l, void **lib, char *path,
                                            size_t n) {
  char file[512] = "";
  *path = 0;
  for (const mr_mpi_library_t *m = mr_mpi_libraries; l->mpi && m->file; m++) {
    if (!mr_mpi_fits(m, l->mpi)) continue;
    *lib = mr_library_open(m->file, file, sizeof file);
    size_t k = strlen(file) < n ? strlen(file) : n - 1;
    if (*lib || (*file && !*path)) memcpy(path, file, k), path[k] = 0;
    if (*lib) return m;
  }
  return NULL;
}
