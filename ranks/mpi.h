/* MPI's libraries, opened at run time.  Open MPI and MPICH agree on what calls mean and not on what
   their handles are: pointers to objects of the library there, numbers here.  One text of the calls
   (mpi_calls.inc) is compiled for each, and this table is what both look like from outside. */
#ifndef MR_RANKS_MPI_H
#define MR_RANKS_MPI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "base/err.h"
#include "base/launcher.h"

MR_BEGIN_DECLS

typedef struct mr__mpi_request {
  void *pointer;
  int number;
} mr__mpi_request_t;

/* All calls return MPI's error class, 0 for none, and are made by one thread at a time.  Messages
   are bytes with this program's own tag. */
typedef struct mr__mpi {
  /* Finds the calls in an open library; NULL, or the name of one that it lacks. */
  const char *(*load)(void *lib);
  /* Starts MPI unless the process has.  *level: which threads may call it, 0 one alone, 1 the
     first, 2 any, one at a time, 3 any.  *own: this call has started it. */
  int (*start)(bool *own, int *level, int *rank, int *size);
  bool (*ended)(void); /* MPI has been ended in this process, which cannot start it again */
  int (*end)(void);    /* waits for all ranks */
  int (*send)(const void *data, int n, int to, mr__mpi_request_t *r);
  int (*receive)(void *data, int n, int from, mr__mpi_request_t *r);
  int (*test)(mr__mpi_request_t *r, bool *done);
  int (*probe)(int from, bool *came, int *bytes);
  void (*version)(char text[8192]); /* what library it is; before start too */
} mr__mpi_t;

extern const mr__mpi_t mr__mpi_open_mpi, mr__mpi_mpich;

/* A library by the name that the loader looks for. */
typedef struct mr_mpi_library {
  const char *file, *family, *package;
  const mr__mpi_t *calls;
} mr_mpi_library_t;
extern const mr_mpi_library_t mr_mpi_libraries[]; /* static; ends at a NULL file */

/* Returns whether a process that is reached as mr_launch_t.mpi says, which is not NULL, is one for
   that library: mpirun's own kind, MPICH's for Slurm's PMI, Open MPI's for its PMIx.  Pure. */
bool mr_mpi_fits(const mr_mpi_library_t *m, const char *mpi);
/* Opens the first library that fits l; path[0,n) is then its file.  NULL if l->mpi is NULL or none
   is there, and path is "" or why one cannot be loaded.  Any thread. */
const mr_mpi_library_t *mr_mpi_library_find(const mr_launch_t *l, void **lib, char *path, size_t n);

MR_END_DECLS

#endif
