/* CIFAR-10's binary layout: names, sizes and class names of the official files. */
#ifndef MR_LOADERS_CIFAR10_FILES_H
#define MR_LOADERS_CIFAR10_FILES_H

#include <stdbool.h>

#include "base/err.h"
#include "loaders/image.h"
#include "loaders/reader.h"

enum {
  MR_CIFAR10_RECORD = 1 + MR_IMAGE_BYTES, /* a label byte, then u8 (3,32,32) CHW */
  MR_CIFAR10_FILES = 5,                   /* of training records */
  MR_CIFAR10_PER_FILE = 10000,
  MR_CIFAR10_PATH = 1024,
  MR_CIFAR10_META = 512,
};

/* Names of the classes: text owns them. */
typedef struct mr_cifar10_names {
  char text[MR_CIFAR10_META];
  const char *name[MR_IMAGE_CLASSES];
} mr_cifar10_names_t;

/* The official names. */
void mr__cifar10_usual_names(mr_cifar10_names_t *names);

/* Those of folder/batches.meta.txt, if it is there: ten words of 1 to 31 letters, one a line;
   MR_ERR_DATA if it holds anything else.  Without the file names stay as they are. */
mr_err_t mr__cifar10_read_names(const char *folder, mr_cifar10_names_t *names, mr_diag_t *diag);

/* Opens the five training files or the test file as conf says (but for the paths), and checks that
   each holds exactly `records` records. */
mr_err_t mr__cifar10_open(const char *folder, bool test, int64_t records, mr_reader_conf_t conf,
                          mr_reader_t **out, mr_diag_t *diag);

/* MR_ERR_DATA if the label of record i of a file is none of the ten. */
mr_err_t mr__cifar10_check_label(const mr_reader_t *r, int file, int64_t i, uint8_t label,
                                 mr_diag_t *diag);

#endif
