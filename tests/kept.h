/* What another user, or a disk, can do to a file or folder that a process has kept for the next one
   (base/trusted.h). */
#ifndef MR_TESTS_KEPT_H
#define MR_TESTS_KEPT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum kept_attack {
  KEPT_OTHERS_WRITE,
  KEPT_GROUP_WRITES,
  KEPT_FOREIGN, /* of another user, which only root can try */
  KEPT_STICKY,  /* a folder as /tmp */
  KEPT_LINK,    /* to the right file, which another user could exchange */
  KEPT_LOOP,    /* a link to itself */
  KEPT_PIPE,    /* without a writer */
  KEPT_EMPTY,
  KEPT_CUT,
  KEPT_ATTACKS
} kept_attack_t;

static const char *const kept_attack_name[] = {"written by others",
                                               "written by the group",
                                               "of another user",
                                               "sticky",
                                               "a link",
                                               "a circle of links",
                                               "a pipe",
                                               "empty",
                                               "cut"};

enum { KEPT_OTHER_USER = 65534 };

/* Does it to the file or folder at path; false if it does not apply, or this user cannot. */
static inline bool kept_attack(const char *path, kept_attack_t how) {
  struct stat st;
  char aside[400];
  if (lstat(path, &st)) return false;
  bool file = S_ISREG(st.st_mode);
  snprintf(aside, sizeof aside, "%s.aside", path);
  switch (how) {
    case KEPT_OTHERS_WRITE: return chmod(path, (st.st_mode & 07777) | S_IWOTH) == 0;
    case KEPT_GROUP_WRITES: return chmod(path, (st.st_mode & 07777) | S_IWGRP) == 0;
    case KEPT_FOREIGN: return geteuid() == 0 && lchown(path, KEPT_OTHER_USER, KEPT_OTHER_USER) == 0;
    case KEPT_STICKY: return !file && chmod(path, 01777) == 0;
    case KEPT_LINK: return rename(path, aside) == 0 && symlink(aside, path) == 0;
    case KEPT_LOOP: return file && unlink(path) == 0 && symlink(path, path) == 0;
    case KEPT_PIPE: return file && unlink(path) == 0 && mkfifo(path, 0600) == 0;
    case KEPT_EMPTY: return file && truncate(path, 0) == 0;
    case KEPT_CUT: return file && truncate(path, st.st_size / 2) == 0;
    default: return false;
  }
}

/* Whether what lies at path could be believed by its owner and mode alone. */
static inline bool kept_is_sound(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
         st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

#endif
