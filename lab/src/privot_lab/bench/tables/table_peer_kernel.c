/* Mirror descent on a tree of cliques, as table_peer_plan.py has it. table_peer_kernel.py compiles this, with the
   numbers of kinds of operations, AXES and TOPS before it, and fills the structures. Tables lie in the order of their
   axes; a stride of zero stands for an axis that a table does not have. */
#include <string.h>
double log(double);

typedef struct { long kind, axes, cells; double *out, *a, *b; long n[AXES], so[AXES], sa[AXES], sb[AXES]; } op;
/* out = base + the sum of tables with strides; those that go along the last axis are first */
typedef struct { long axes, tops, along; double *out, *base, *top[TOPS]; long n[AXES], s[TOPS][AXES]; } fill;
/* the sums of source times factor over several sets of axes; those along the last axis are first */
typedef struct {
    long axes, outs, along;
    double *source, *factor, *out[TOPS];
    long n[AXES], cells[TOPS], s[TOPS][AXES], sf[AXES];
} drain;
typedef struct {
    long cells, separator, careful, known, adds, sums, linked;
    double shift, *belief, *message, *ratio, *below, *above, *tops;
    op *add, *up, *top, *lower, *multiply, *sum;
    fill *gather;
    drain *whole;
} clique;
typedef struct {
    long cliques, count, evaluations;
    double total, lowest, lowest_top, highest;
    double *values, *omega, *answers, *before, *means, *weights, *slope, *last;
    clique *held;
} plan;

static void row(long kind, long n, double *restrict o, long so, const double *restrict a, long sa,
                const double *restrict b, long sb) {
    if (kind == ADD) {
        if (sa && sb) for (long i = 0; i < n; i++) o[i] = a[i] + b[i];
        else if (sa) for (long i = 0; i < n; i++) o[i] = a[i] + *b;
        else if (sb) for (long i = 0; i < n; i++) o[i] = *a + b[i];
        else for (long i = 0; i < n; i++) o[i] = *a + *b;
    } else if (kind == SUM) {
        if (so) for (long i = 0; i < n; i++) o[i] += a[i];
        else { double s = 0.0; for (long i = 0; i < n; i++) s += a[i]; *o += s; }
    } else if (kind == MULTIPLY) {
        if (sb) for (long i = 0; i < n; i++) o[i] *= b[i];
        else for (long i = 0; i < n; i++) o[i] *= *b;
    } else if (kind == SUBTRACT) {
        if (sb) for (long i = 0; i < n; i++) o[i] -= b[i];
        else for (long i = 0; i < n; i++) o[i] -= *b;
    } else {
        if (so) for (long i = 0; i < n; i++) o[i] = a[i] > o[i] ? a[i] : o[i];
        else { double s = *o; for (long i = 0; i < n; i++) s = a[i] > s ? a[i] : s; *o = s; }
    }
}

static void added(long n, double *o, const double *a, const double *b, long sa, long sb) {
    /* the output may be the first input */
    if (sa && sb) for (long i = 0; i < n; i++) o[i] = a[i] + b[i];
    else if (sa) for (long i = 0; i < n; i++) o[i] = a[i] + *b;
    else row(ADD, n, o, 1, a, sa, b, sb);
}

static void run(const op *p) {
    long at[AXES] = {0}, last = p->axes - 1, n = p->n[last];
    double *o = p->out, *a = p->a, *b = p->b;
    if (p->kind == SUM) memset(o, 0, p->cells * sizeof(double));
    if (p->kind == HIGHEST) for (long i = 0; i < p->cells; i++) o[i] = -1e300;
    for (;;) {
        if (p->kind == ADD) added(n, o, a, b, p->sa[last], p->sb[last]);
        else row(p->kind, n, o, p->so[last], a, p->sa[last], b, p->sb[last]);
        long k = last - 1;
        for (; k >= 0; k--) {
            o += p->so[k]; a += p->sa[k]; b += p->sb[k];
            if (++at[k] < p->n[k]) break;
            o -= p->so[k] * p->n[k]; a -= p->sa[k] * p->n[k]; b -= p->sb[k] * p->n[k];
            at[k] = 0;
        }
        if (k < 0) return;
    }
}

/* exp(x) = 2^k exp(r) with |r| <= ln(2)/2: the series to r^13 is within a unit or two of the last place; written so
   that the compiler makes vectors of it. Below the smallest normal number it stays there. */
static inline double exponential(double x) {
    x = x < -708.0 ? -708.0 : x;
    double k = __builtin_rint(x * 1.4426950408889634), r, s;
    r = __builtin_fma(-k, 0x1.62e42fefa39efp-1, x);
    r = __builtin_fma(-k, 0x1.abc9e3b39803fp-56, r);
    s = 1.0 / 6227020800.0;
    s = __builtin_fma(s, r, 1.0 / 479001600.0);
    s = __builtin_fma(s, r, 1.0 / 39916800.0);
    s = __builtin_fma(s, r, 1.0 / 3628800.0);
    s = __builtin_fma(s, r, 1.0 / 362880.0);
    s = __builtin_fma(s, r, 1.0 / 40320.0);
    s = __builtin_fma(s, r, 1.0 / 5040.0);
    s = __builtin_fma(s, r, 1.0 / 720.0);
    s = __builtin_fma(s, r, 1.0 / 120.0);
    s = __builtin_fma(s, r, 1.0 / 24.0);
    s = __builtin_fma(s, r, 1.0 / 6.0);
    s = __builtin_fma(s, r, 0.5);
    s = __builtin_fma(s, r, 1.0);
    s = __builtin_fma(s, r, 1.0);
    union { long i; double d; } scale;
    scale.i = ((long)k + 1023) << 52;
    return s * scale.d;
}

static void exponentials(double *restrict out, long n, double shift) {
    for (long i = 0; i < n; i++) out[i] = exponential(out[i] - shift);
}

static double whole(const double *a, long n) { double s = 0.0; for (long i = 0; i < n; i++) s += a[i]; return s; }

/* fills, and where asked takes exponentials of what is still near */
static void filled(const fill *f, double shift, long raised) {
    long at[AXES] = {0}, last = f->axes - 1, n = f->n[last], place = 0, done = 0;
    const double *top[TOPS];
    for (long k = 0; k < f->tops; k++) top[k] = f->top[k];
    for (;;) {
        double s = -shift, *x = f->out + place;
        const double *base = f->base + place;
        for (long k = f->along; k < f->tops; k++) s += *top[k];
        if (f->along) {
            const double *t = top[0];
            for (long i = 0; i < n; i++) x[i] = base[i] + t[i] + s;
        } else for (long i = 0; i < n; i++) x[i] = base[i] + s;
        for (long k = 1; k < f->along; k++) {
            const double *t = top[k];
            for (long i = 0; i < n; i++) x[i] += t[i];
        }
        place += n;
        if (raised && place - done >= 1024) { exponentials(f->out + done, place - done, 0.0); done = place; }
        long j = last - 1;
        for (; j >= 0; j--) {
            for (long k = 0; k < f->tops; k++) top[k] += f->s[k][j];
            if (++at[j] < f->n[j]) break;
            for (long k = 0; k < f->tops; k++) top[k] -= f->s[k][j] * f->n[j];
            at[j] = 0;
        }
        if (j < 0) break;
    }
    if (raised && place > done) exponentials(f->out + done, place - done, 0.0);
}

static void drained(const drain *d) {
    long at[AXES] = {0}, last = d->axes - 1, n = d->n[last];
    const double *a = d->source, *f = d->factor;
    double *out[TOPS];
    for (long k = 0; k < d->outs; k++) {
        out[k] = d->out[k];
        memset(out[k], 0, d->cells[k] * sizeof(double));
    }
    if (!d->outs) return;
    for (;;) {
        double s = 0.0;
        if (d->sf[last]) {
            for (long i = 0; i < n; i++) s += a[i] * f[i];
            for (long k = 0; k < d->along; k++) {
                double *restrict o = out[k];
                for (long i = 0; i < n; i++) o[i] += a[i] * f[i];
            }
        } else {
            double g = *f;
            for (long i = 0; i < n; i++) s += a[i];
            s *= g;
            for (long k = 0; k < d->along; k++) {
                double *restrict o = out[k];
                for (long i = 0; i < n; i++) o[i] += a[i] * g;
            }
        }
        for (long k = d->along; k < d->outs; k++) *out[k] += s;
        a += n;
        long j = last - 1;
        for (; j >= 0; j--) {
            f += d->sf[j];
            for (long k = 0; k < d->outs; k++) out[k] += d->s[k][j];
            if (++at[j] < d->n[j]) break;
            f -= d->sf[j] * d->n[j];
            for (long k = 0; k < d->outs; k++) out[k] -= d->s[k][j] * d->n[j];
            at[j] = 0;
        }
        if (j < 0) return;
    }
}

static double highest(const double *x, long n) {
    double high = x[0];
    for (long i = 0; i < n; i++) high = x[i] > high ? x[i] : high;
    return high;
}

static void upward(plan *p, clique *c) {
    double *x = c->belief;
    for (long i = 0; i < c->adds; i++) run(c->add + i);
    if (!c->known) {
        filled(c->gather, 0.0, 0);
        c->shift = highest(x, c->cells);
        c->known = 1;
    }
    /* what the belief was at most a step ago is near enough, unless sums say that it is not */
    for (long trial = 0; trial < 2 && !c->careful; trial++) {
        filled(c->gather, c->shift, 1);
        double low, high;
        if (!c->linked) low = high = *c->below = whole(x, c->cells);
        else {
            run(c->up);
            low = high = c->below[0];
            for (long i = 1; i < c->separator; i++) {
                low = c->below[i] < low ? c->below[i] : low;
                high = c->below[i] > high ? c->below[i] : high;
            }
        }
        if (low >= p->lowest && high >= p->lowest_top && high <= p->highest) {
            if (c->linked) for (long i = 0; i < c->separator; i++) c->message[i] = log(c->below[i]) + c->shift;
            return;
        }
        filled(c->gather, 0.0, 0);
        c->shift = highest(x, c->cells);
    }
    c->careful = 1;
    filled(c->gather, 0.0, 0);
    if (!c->linked) {
        exponentials(x, c->cells, highest(x, c->cells));
        *c->below = whole(x, c->cells);
        return;
    }
    /* one highest value for each cell of the separator */
    run(c->top);
    run(c->lower);
    exponentials(x, c->cells, 0.0);
    run(c->up);
    for (long i = 0; i < c->separator; i++) c->message[i] = log(c->below[i]) + c->tops[i];
}

static double propagate(plan *p) {
    p->evaluations++;
    for (long k = p->cliques - 1; k >= 0; k--) upward(p, p->held + k);
    for (long k = 0; k < p->cliques; k++) {
        clique *c = p->held + k;
        for (long i = 0; i < c->separator; i++) c->ratio[i] = (c->linked ? c->above[i] : p->total) / c->below[i];
        drained(c->whole);
        for (long i = 0; i < c->sums; i++) run(c->sum + i);
    }
    double loss = 0.0;
    for (long i = 0; i < p->count; i++) {
        double r = p->answers[i] - p->means[i];
        p->slope[i] = p->weights[i] * r;
        loss += r * p->slope[i];
    }
    return 0.5 * loss;
}

static double searched(plan *p, long iterations, long trials, double constant) {
    double loss = propagate(p), alpha = 1.0 / (p->total * p->total);
    long m = p->count;
    if (loss + constant == 0.0) return 0.0;
    for (long t = 0; t < iterations; t++) {
        memcpy(p->omega, p->values, m * sizeof(double));
        memcpy(p->before, p->answers, m * sizeof(double));
        memcpy(p->last, p->slope, m * sizeof(double));
        double current = loss;
        alpha *= 2.0;
        for (long trial = 0; trial < trials; trial++) {
            for (long i = 0; i < m; i++) p->values[i] = p->omega[i] - alpha * p->last[i];
            loss = propagate(p);
            double promise = 0.0;
            for (long i = 0; i < m; i++) promise += p->last[i] * (p->before[i] - p->answers[i]);
            if (current - loss >= 0.5 * alpha * promise) break;
            alpha *= 0.5;
        }
    }
    return loss + constant;
}

double descend(plan *p, long iterations, long trials, double constant) {
    double loss = searched(p, iterations, trials, constant);
    for (long k = 0; k < p->cliques; k++) run(p->held[k].multiply);
    return loss;
}
