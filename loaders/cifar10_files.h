/* CIFAR-10's binary layout: names, sizes and class names of the official files. */
#ifndef MR_LOADERS_CIFAR10_FILES_H
#define MR_LOADERS_CIFAR10_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loaders/image.h"

enum {
  MR_CIFAR10_RECORD = 1 + MR_IMAGE_BYTES, /* a label byte, then u8 (3,32,32) CHW */
  MR_CIFAR10_FILES = 5,                   /* of training records */
  MR_CIFAR10_PER_FILE = 10000,
  MR_CIFAR10_PATH = 1024,
};

/* The official names. */
extern const char *const mr__cifar10_class[MR_IMAGE_CLASSES];

/* The path of the i-th training file, or of the test file, into text[0,n). */
void mr__cifar10_path(const char *folder, bool test, int i, char *text, size_t n);

/* The paths of the five training files or the test file of a folder; text owns them. */
typedef struct mr_cifar10_paths {
  char text[MR_CIFAR10_FILES][MR_CIFAR10_PATH + 32];
  const char *path[MR_CIFAR10_FILES];
  int n;
} mr_cifar10_paths_t;

/* MR_ERR_IO if the folder cannot be read. */
mr_err_t mr__cifar10_paths(const char *folder, bool test, mr_cifar10_paths_t *out, mr_diag_t *diag);

/* MR_ERR_DATA if the label of a record is none of the ten; for mr_store_conf_t. */
mr_err_t mr__cifar10_check(const void *ctx, const char *path, int64_t at, const uint8_t *record,
                           mr_diag_t *diag);

#endif
