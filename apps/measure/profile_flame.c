/* A flame graph by scope as SVG: a box is a scope or, at the tip, an op; its width is time, its
   colour the kind of work.  The figures appear as tooltips, without a script. */
#include <stdlib.h>
#include <string.h>

#include "apps/measure/profile.h"
#include "base/xio.h"

enum { WIDTH = 1200, ROW = 20, HEAD = 58, MARGIN = 10 };

typedef struct box {
  const char *name;     /* [len], not ended by NUL */
  int len, depth, kind; /* kind: -1 for a scope */
  int child, next;      /* indices, -1: none */
  mr_profile_sum_t sum;
} box_t;

typedef struct tree {
  const mr_profile_t *p;
  box_t *box;
  int n, depth;
} tree_t;

static int new_box(tree_t *t, const char *name, int len, int depth, int kind) {
  t->box[t->n] = (box_t){name, len, depth, kind, -1, -1, {0}};
  if (depth > t->depth) t->depth = depth;
  return t->n++;
}

static int child_of(tree_t *t, int parent, const char *name, int len, int kind) {
  int last = -1;
  for (int i = t->box[parent].child; i >= 0; last = i, i = t->box[i].next) {
    const box_t *b = &t->box[i];
    if (b->len == len && !memcmp(b->name, name, (size_t)len) && (b->kind < 0) == (kind < 0))
      return i;
  }
  int made = new_box(t, name, len, t->box[parent].depth + 1, kind);
  *(last < 0 ? &t->box[parent].child : &t->box[last].next) = made;
  return made;
}

static void profile_flame_grow(tree_t *t, const mr_profile_op_t *c) {
  const mr_profile_t *p = t->p;
  int at = 0;
  mr_profile_add(p, &t->box[0].sum, c);
  size_t skip;
  for (const char *s = c->scope; *s; s += skip) {
    at = child_of(t, at, s, (int)mr_profile_level(s, &skip), -1);
    mr_profile_add(p, &t->box[at].sum, c);
  }
  const char *op = c->op;
  at = child_of(t, at, op, (int)strlen(op), (int)mr_profile_kind(p, c));
  mr_profile_add(p, &t->box[at].sum, c);
}

/* Escapes a name for XML; scope names are usually identifiers, but need not be. */
static void write_escaped_name(const char *s, int n, FILE *to) {
  for (int i = 0; i < n; i++)
    if (s[i] == '<' || s[i] == '>' || s[i] == '&' || s[i] == '"' || (unsigned char)s[i] < 32)
      fprintf(to, "&#%d;", (unsigned char)s[i] < 32 ? '?' : s[i]);
    else
      fputc(s[i], to);
}

static void profile_flame_draw_box(const box_t *b, const mr_profile_t *p, double x, double width,
                                   int y, FILE *to) {
  static const char *const class[] = {"s", "p", "m", "o"};
  double ns = b->sum.ns > 0 ? b->sum.ns : 1, step = (double)p->wall_ns / p->runs;
  int room = (int)((width - 8) / 6.7);
  fprintf(to, "<g><title>");
  write_escaped_name(b->name, b->len, to);
  fprintf(to,
          ": %.3f ms, %.1f %% of the step, %d calls, %.1f GFLOP/s, %.1f GB/s, %.0f %% of the limit",
          ns / 1e6, 100 * ns / step, b->sum.calls, b->sum.flop / ns, b->sum.bytes / ns,
          100 * b->sum.ideal_ns / ns);
  fprintf(to, "</title><rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>",
          class[b->kind + 1], x, y, width > 1 ? width - 0.5 : width, ROW - 1);
  if (room >= 3) {
    fprintf(to, "<text x=\"%.2f\" y=\"%d\">", x + 4, y + 14);
    write_escaped_name(b->name, b->len > room ? room - 1 : b->len, to);
    fputs(b->len > room ? "&#8230;</text>" : "</text>", to);
  }
  fputs("</g>\n", to);
}

static void profile_flame_draw(const tree_t *t, int at, double x, double scale, FILE *to) {
  const box_t *b = &t->box[at];
  profile_flame_draw_box(b, t->p, x, b->sum.ns * scale, HEAD + b->depth * ROW, to);
  for (int i = b->child; i >= 0; i = t->box[i].next) {
    profile_flame_draw(t, i, x, scale, to);
    x += t->box[i].sum.ns * scale;
  }
}

static const char style[] =
    "<style>text{font:12px monospace;fill:#1b1b1b}rect{stroke:none}"
    ".b{fill:#fff}.s{fill:#d5d9e0}.p{fill:#8fc1e3}.m{fill:#f2b880}.o{fill:#b8d8a8}.h{fill:#1b1b1b}"
    "@media(prefers-color-scheme:dark){.b{fill:#16181d}text{fill:#f0f0f0}.h{fill:#f0f0f0}"
    ".s{fill:#3c424d}.p{fill:#1f5f8b}.m{fill:#8a5218}.o{fill:#3f6b2f}}</style>\n";

static void print_svg(const void *tree, FILE *to) {
  const tree_t *t = tree;
  const mr_profile_t *p = t->p;
  int height = HEAD + (t->depth + 1) * ROW + MARGIN;
  double step = (double)p->wall_ns / p->runs;
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
          "height=\"%d\">\n%s<rect class=\"b\" width=\"%d\" height=\"%d\"/>\n",
          WIDTH, height, WIDTH, height, style, WIDTH, height);
  fprintf(to,
          "<text class=\"h\" x=\"%d\" y=\"20\">A training step of %.1f ms by scope and op (%d "
          "step%s, %d thread%s); point at a box for its figures</text>\n",
          MARGIN, step / 1e6, p->runs, p->runs == 1 ? "" : "s", p->limit.threads,
          p->limit.threads == 1 ? "" : "s");
  for (int k = MR_PROFILE_PRODUCT; k <= MR_PROFILE_OTHER; k++) {
    static const char *const class[] = {"p", "m", "o"};
    mr_profile_sum_t s = mr_profile_total(p, k);
    fprintf(to,
            "<rect class=\"%s\" x=\"%d\" y=\"32\" width=\"12\" height=\"12\"/><text class=\"h\" "
            "x=\"%d\" y=\"43\">%s %.1f %%</text>\n",
            class[k], MARGIN + k * 220, MARGIN + k * 220 + 18,
            mr_profile_kind_name((mr_profile_kind_t)k), 100 * s.ns / step);
  }
  profile_flame_draw(t, 0, MARGIN, (WIDTH - 2.0 * MARGIN) / t->box[0].sum.ns, to);
  fputs("</svg>\n", to);
}

static size_t most_boxes(const mr_profile_t *p) {
  size_t n = 1;
  for (int i = 0; i < p->n; i++) {
    n += 2;
    for (const char *s = p->call[i].scope; *s; s++) n += *s == '/' || *s == '.';
  }
  return n;
}

mr_err_t mr_profile_flame(const mr_profile_t *p, const char *path, mr_diag_t *diag) {
  tree_t t = {p, calloc(most_boxes(p), sizeof *t.box), 0, 0};
  if (!t.box) return mr_no_memory(diag, "the flame graph %s", path);
  new_box(&t, "step", 4, 0, -1);
  for (int i = 0; i < p->n; i++) profile_flame_grow(&t, &p->call[i]);
  mr_err_t e = mr_write_printed(path, print_svg, &t, diag);
  free(t.box);
  return e;
}
