/* The pixel work of SSIMULACRA 2.1: two pictures in, the means and 4-norms of their error maps out.
 * One file, though long: the compiler sees every loop with its callers.
 *
 * Both pictures are walked once, row by row and side by side. Each row is turned from sRGB to linear light and handed to
 * the first of up to six levels; every second row a level hands a row of half the width to the next one. A level keeps
 * the last eleven rows, blurred across, in rings; from them come the blurred rows, five rows later. So the work needs
 * memory for rows only, whatever the height, and the rows stay in the processor's cache. Of the reference picture, only
 * the pixels are stored: computing the rest for each comparison takes less time than fetching it from memory. Maps whose
 * weights are negligible are left out, which halves the work.
 *
 * Invariants: the object is not changed after it was made, so several threads may score at once; the interpreter's lock
 * is released while pixels are read; results are the same on every processor, since the order of the additions is fixed
 * and no multiplication is fused with an addition (see setup.py).
 *
 * Source: SSIMULACRA 2.1, Jon Sneyers, Cloudinary, as published with libjxl; XYB and its constants from JPEG XL
 * (ISO/IEC 18181-1), transfer curve from IEC 61966-2-1. What they leave open is done as in the `ssimulacra2` package for
 * Python: the blur is an exact Gaussian of eleven taps, beyond the left and right border lies zero, beyond the upper and
 * lower one the mirrored picture. A level below 8 pixels on a side is left out; a picture that small is first extended
 * to 8 by repeating its last pixels.
 */

#include "../_extension.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PICTURES = 2,          /* the reference and the other */
    CHANNELS = 3,          /* X, Y, B-Y */
    LEVELS = 6,            /* 1:1 to 1:32 */
    MIN_SIDE = 8,          /* pixels */
    RADIUS = 5,            /* pixels to either side that the blur reaches */
    TAPS = 2 * RADIUS + 1,
    MARGIN = 16,           /* floats before and after a row: the radius, rounded up to a cache line */
    SUMS = 6,              /* SSIM, artefacts, lost detail: each the sum and the sum of fourth powers */
    LANES = 16,            /* partial sums of each sum, so that vectors of any width give the same result */
    MAX_ROW_WIDTH = 16384, /* a picture wider than this and wider than tall is walked column by column */
};

/* exp(-n^2 / (2 * 1.5^2)), normed to a sum of 1 */
static const float TAP[RADIUS + 1] = {
    0.266011725f, 0.213005538f, 0.109360690f, 0.036000772f, 0.007598758f, 0.001028380f,
};
static const float BIAS = 0.00379307326f;
static const float CUBE_ROOT_OF_BIAS = 0.1559542005492486f;
static const float C2 = 0.0009f;

/* The channels whose maps count at each level of a picture with all levels: bit 0 is X, 1 is Y, 2 is B-Y. The weights of
 * the others are below 0.002, so that they change a score by less than 0.01; they are not computed, and their norms are
 * 0. In a picture with fewer levels the same weights apply to other maps, so all are computed. */
static const unsigned CHANNELS_THAT_COUNT[LEVELS] = {2, 3, 3, 7, 7, 0};

static const float L_WEIGHTS[] = {0.30f, 0.622f, 0.078f};
static const float M_WEIGHTS[] = {0.23f, 0.692f, 0.078f};
static const float S_WEIGHTS[] = {0.24342269f, 0.20476744f, 0.55180987f};

static float linear_of_srgb[256];

static void fill_transfer_curve(void)
{
    for (int i = 0; i < 256; i++) {
        double v = i / 255.0;
        linear_of_srgb[i] = (float)(v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* The cube root of a number from BIAS to about 1: a guess from the exponent, then Halley's rule twice. */
INLINE float cube_root(float x)
{
    int32_t bits;
    float y, cube;
    memcpy(&bits, &x, sizeof bits);
    bits = (int32_t)((float)bits * (1.0f / 3.0f)) + 709921077;
    memcpy(&y, &bits, sizeof y);
    cube = y * y * y;
    y = y * (cube + 2.0f * x) / (2.0f * cube + x);
    cube = y * y * y;
    return y * (cube + 2.0f * x) / (2.0f * cube + x);
}

INLINE float absorbed(const float *weights, float r, float g, float b)
{
    return cube_root(weights[0] * r + weights[1] * g + weights[2] * b + BIAS) - CUBE_ROOT_OF_BIAS;
}

WIDE static void xy_row(const float *RESTRICT r, const float *RESTRICT g, const float *RESTRICT b,
                        float *RESTRICT x_out, float *RESTRICT y_out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float l = absorbed(L_WEIGHTS, r[i], g[i], b[i]), m = absorbed(M_WEIGHTS, r[i], g[i], b[i]);
        x_out[i] = 0.5f * (l - m) * 14.0f + 0.42f;
        y_out[i] = 0.5f * (l + m) + 0.01f;
    }
}

WIDE static void xyb_row(const float *RESTRICT r, const float *RESTRICT g, const float *RESTRICT b,
                         float *RESTRICT x_out, float *RESTRICT y_out, float *RESTRICT b_out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float l = absorbed(L_WEIGHTS, r[i], g[i], b[i]), m = absorbed(M_WEIGHTS, r[i], g[i], b[i]);
        float s = absorbed(S_WEIGHTS, r[i], g[i], b[i]), y = 0.5f * (l + m);
        x_out[i] = 0.5f * (l - m) * 14.0f + 0.42f;
        y_out[i] = y + 0.01f;
        b_out[i] = s - y + 0.55f;
    }
}

WIDE static void square_row(const float *RESTRICT a, float *RESTRICT out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] * a[i];
}

WIDE static void squared_difference_row(const float *a, const float *b, float *RESTRICT out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (a[i] - b[i]) * (a[i] - b[i]);
}

/* Fills the margins of `row`, which lie before and after its `n` values, with its mirrored ends or with zeros. */
INLINE void fill_margin(float *row, size_t n, int mirrored)
{
    for (size_t i = 0; i < RADIUS; i++) {
        row[-1 - (ptrdiff_t)i] = mirrored ? row[i] : 0.0f;
        row[n + i] = mirrored ? row[n - 1 - i] : 0.0f;
    }
}

WIDE static void blur_across(const float *RESTRICT row, float *RESTRICT out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float *c = row + i;
        out[i] = TAP[0] * c[0] + TAP[1] * (c[-1] + c[1]) + TAP[2] * (c[-2] + c[2]) + TAP[3] * (c[-3] + c[3]) +
                 TAP[4] * (c[-4] + c[4]) + TAP[5] * (c[-5] + c[5]);
    }
}

WIDE static void blur_down(const float *const rows[TAPS], float *RESTRICT out, size_t n)
{
    const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4], *f = rows[5], *g = rows[6],
                *h = rows[7], *i = rows[8], *j = rows[9], *k = rows[10];
    for (size_t x = 0; x < n; x++)
        out[x] = TAP[0] * f[x] + TAP[1] * (e[x] + g[x]) + TAP[2] * (d[x] + h[x]) + TAP[3] * (c[x] + i[x]) +
                 TAP[4] * (b[x] + j[x]) + TAP[5] * (a[x] + k[x]);
}

struct compared {
    const float *image[PICTURES], *mean[PICTURES], *square[PICTURES]; /* square: blurred squares of the values */
    const float *difference2;                                         /* blurred squares of their differences */
};

/* SSIM's error is 1 - (1 - (m1 - m2)^2) * (2 * covariance + C2) / (variance1 + variance2 + C2). Twice the covariance is
 * both variances less that of the difference; in this form small errors are not lost in single precision. */
INLINE void compare_pixel(const struct compared *p, size_t i, float sums[SUMS][LANES], size_t lane)
{
    float mean1 = p->mean[0][i], mean2 = p->mean[1][i], mean_difference2 = (mean1 - mean2) * (mean1 - mean2);
    float difference_variance = p->difference2[i] - mean_difference2;
    float variances = (p->square[0][i] - mean1 * mean1) + (p->square[1][i] - mean2 * mean2);
    float ssim = mean_difference2 + (1.0f - mean_difference2) * (difference_variance / (variances + C2));
    float edge = (1.0f + fabsf(p->image[1][i] - mean2)) / (1.0f + fabsf(p->image[0][i] - mean1)) - 1.0f;
    float artefact = edge > 0.0f ? edge : 0.0f;
    float lost = edge < 0.0f ? -edge : 0.0f;
    ssim = ssim > 0.0f ? ssim : 0.0f;
    sums[0][lane] += ssim;
    sums[1][lane] += (ssim * ssim) * (ssim * ssim);
    sums[2][lane] += artefact;
    sums[3][lane] += (artefact * artefact) * (artefact * artefact);
    sums[4][lane] += lost;
    sums[5][lane] += (lost * lost) * (lost * lost);
}

WIDE static void compare_row(const struct compared *pointers, size_t n, double totals[SUMS])
{
    const struct compared p = *pointers;
    float sums[SUMS][LANES] = {{0.0f}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            compare_pixel(&p, i + lane, sums, lane);
    for (size_t lane = 0; i + lane < n; lane++)
        compare_pixel(&p, i + lane, sums, lane);
    for (int s = 0; s < SUMS; s++)
        for (int lane = 0; lane < LANES; lane++)
            totals[s] += sums[s][lane];
}

/* A row of half the width: means of 2x2 pixels, the last ones repeated where the size is odd. */
static void halve_rows(const float *RESTRICT upper, const float *RESTRICT lower, float *RESTRICT out, size_t n)
{
    for (size_t i = 0; i < n / 2; i++)
        out[i] = 0.25f * ((upper[2 * i] + upper[2 * i + 1]) + (lower[2 * i] + lower[2 * i + 1]));
    if (n % 2)
        out[n / 2] = 0.5f * (upper[n - 1] + lower[n - 1]);
}

/* ---- the levels of a pair of pictures ---------------------------------------------------------------------------- */

typedef struct {
    const unsigned char *pixels;
    size_t width, height;   /* as walked: columns and rows change places for a very wide picture */
    size_t step_x, step_y;  /* bytes */
    int bands, background;  /* with 4 bands, what lies behind transparent pixels: a grey of sRGB */
} Picture;

typedef struct {
    PyObject_HEAD
    Py_buffer pixels;
    size_t width, height, walked_width, walked_height;
    int bands, background, columns_first;
} Reference;

typedef struct {
    float *linear[CHANNELS];             /* the current row */
    float *upper[CHANNELS];              /* the row before it, until both are halved */
    float *image[CHANNELS][TAPS];        /* rings of XYB and of rows blurred across, by row modulo TAPS */
    float *mean[CHANNELS][TAPS];
    float *square[CHANNELS][TAPS];
    float *blurred_mean, *blurred_square;
} Rows;

typedef struct {
    size_t width, height, received;      /* received: number of rows so far */
    unsigned channels;                   /* those that are computed, as in CHANNELS_THAT_COUNT */
    float *block;                        /* the memory of all rows below */
    Rows picture[PICTURES];
    float *difference2[CHANNELS][TAPS];
    float *unblurred, *blurred_difference2, *zero;
    double totals[CHANNELS][SUMS];
} Level;

enum { ROWS_OF_LEVEL = PICTURES * (CHANNELS * (2 + 3 * TAPS) + 2) + CHANNELS * TAPS + 3 };

typedef struct {
    int levels, walked_levels;           /* after the last walked one no channel is computed */
    int columns_first;
    Level level[LEVELS];
} Walk;

static void free_walk(Walk *walk)
{
    for (int i = 0; i < LEVELS; i++)
        free(walk->level[i].block);
}

static int begin_walk(Walk *walk, const Reference *reference)
{
    memset(walk, 0, sizeof *walk);
    walk->columns_first = reference->columns_first;
    size_t width = reference->walked_width, height = reference->walked_height;
    for (; walk->levels < LEVELS && width >= MIN_SIDE && height >= MIN_SIDE; walk->levels++) {
        walk->level[walk->levels].width = width;
        walk->level[walk->levels].height = height;
        width = (width + 1) / 2;
        height = (height + 1) / 2;
    }
    for (int i = 0; i < walk->levels; i++) {
        Level *level = &walk->level[i];
        level->channels = walk->levels == LEVELS ? CHANNELS_THAT_COUNT[i] : (1u << CHANNELS) - 1;
        if (!level->channels)
            continue;
        walk->walked_levels = i + 1;
        size_t stride = (level->width + 2 * MARGIN + 15) / 16 * 16;
        if (stride > SIZE_MAX / sizeof(float) / ROWS_OF_LEVEL)
            return -1;
        level->block = calloc(stride * ROWS_OF_LEVEL, sizeof(float));
        if (level->block == NULL)
            return -1;
        float *next = level->block + MARGIN;
        for (int k = 0; k < PICTURES; k++) {
            Rows *rows = &level->picture[k];
            for (int c = 0; c < CHANNELS; c++) {
                rows->linear[c] = next, next += stride;
                rows->upper[c] = next, next += stride;
                for (int t = 0; t < TAPS; t++) {
                    rows->image[c][t] = next, next += stride;
                    rows->mean[c][t] = next, next += stride;
                    rows->square[c][t] = next, next += stride;
                }
            }
            rows->blurred_mean = next, next += stride;
            rows->blurred_square = next, next += stride;
        }
        for (int c = 0; c < CHANNELS; c++)
            for (int t = 0; t < TAPS; t++)
                level->difference2[c][t] = next, next += stride;
        level->unblurred = next, next += stride;
        level->blurred_difference2 = next, next += stride;
        level->zero = next;
    }
    return 0;
}

static void blur_ring(const Level *level, float *const ring[TAPS], size_t y, int mirrored, float *out)
{
    const float *rows[TAPS];
    ptrdiff_t height = (ptrdiff_t)level->height;
    for (int t = 0; t < TAPS; t++) {
        ptrdiff_t row = (ptrdiff_t)y + t - RADIUS;
        int outside = row < 0 || row >= height;
        if (row < 0)
            row = -1 - row;
        if (row >= height)
            row = 2 * height - 1 - row;
        rows[t] = outside && !mirrored ? level->zero : ring[row % TAPS];
    }
    blur_down(rows, out, level->width);
}

/* Called when all rows that row `y` depends on were received. */
static void finish_row(const Walk *walk, Level *level, size_t y)
{
    int mirrored_down = !walk->columns_first;
    for (int c = 0; c < CHANNELS; c++) {
        if (!(level->channels >> c & 1))
            continue;
        struct compared compared = {.difference2 = level->blurred_difference2};
        for (int k = 0; k < PICTURES; k++) {
            Rows *rows = &level->picture[k];
            blur_ring(level, rows->mean[c], y, mirrored_down, rows->blurred_mean);
            blur_ring(level, rows->square[c], y, mirrored_down, rows->blurred_square);
            compared.image[k] = rows->image[c][y % TAPS];
            compared.mean[k] = rows->blurred_mean;
            compared.square[k] = rows->blurred_square;
        }
        blur_ring(level, level->difference2[c], y, mirrored_down, level->blurred_difference2);
        compare_row(&compared, level->width, level->totals[c]);
    }
}

/* Turns the row in `linear` to XYB and blurs it across. */
static void blur_row(const Walk *walk, const Level *level, const Rows *rows, size_t slot)
{
    size_t n = level->width;
    if (level->channels >> 2)
        xyb_row(rows->linear[0], rows->linear[1], rows->linear[2], rows->image[0][slot], rows->image[1][slot],
                rows->image[2][slot], n);
    else
        xy_row(rows->linear[0], rows->linear[1], rows->linear[2], rows->image[0][slot], rows->image[1][slot], n);
    for (int c = 0; c < CHANNELS; c++) {
        if (!(level->channels >> c & 1))
            continue;
        fill_margin(rows->image[c][slot], n, walk->columns_first);
        blur_across(rows->image[c][slot], rows->mean[c][slot], n);
        square_row(rows->image[c][slot], level->unblurred, n);
        fill_margin(level->unblurred, n, walk->columns_first);
        blur_across(level->unblurred, rows->square[c][slot], n);
    }
}

/* Processes the rows in `linear`, and the rows of the following levels that they complete. */
static void take_rows(Walk *walk, int index)
{
    Level *level = &walk->level[index];
    size_t n = level->width, y = level->received++, slot = y % TAPS;
    int last = level->received == level->height;

    for (int k = 0; k < PICTURES; k++)
        blur_row(walk, level, &level->picture[k], slot);
    for (int c = 0; c < CHANNELS; c++) {
        if (!(level->channels >> c & 1))
            continue;
        squared_difference_row(level->picture[1].image[c][slot], level->picture[0].image[c][slot], level->unblurred, n);
        fill_margin(level->unblurred, n, walk->columns_first);
        blur_across(level->unblurred, level->difference2[c][slot], n);
    }
    if (y >= RADIUS)
        finish_row(walk, level, y - RADIUS);
    for (size_t rest = level->height - RADIUS; last && rest < level->height; rest++)
        finish_row(walk, level, rest);

    if (index + 1 == walk->walked_levels)
        return;
    for (int k = 0; k < PICTURES; k++)
        for (int c = 0; c < CHANNELS; c++) {
            Rows *rows = &level->picture[k];
            float *halved = walk->level[index + 1].picture[k].linear[c];
            if (y % 2)
                halve_rows(rows->upper[c], rows->linear[c], halved, n);
            else if (last)
                halve_rows(rows->linear[c], rows->linear[c], halved, n);
            else
                memcpy(rows->upper[c], rows->linear[c], n * sizeof(float));
        }
    if (y % 2 || last)
        take_rows(walk, index + 1);
}

/* Row `y` of a picture in linear light, extended to `width`. The last row and column are repeated beyond the end. */
static void read_row(const Picture *picture, size_t y, float *const linear[CHANNELS], size_t width)
{
    size_t row = y < picture->height ? y : picture->height - 1;
    const unsigned char *pixel = picture->pixels + row * picture->step_y;
    for (size_t x = 0; x < picture->width; x++, pixel += picture->step_x) {
        if (picture->bands == 3) {
            for (int c = 0; c < CHANNELS; c++)
                linear[c][x] = linear_of_srgb[pixel[c]];
        } else {
            unsigned alpha = pixel[3], behind = (255 - alpha) * (unsigned)picture->background + 127;
            for (int c = 0; c < CHANNELS; c++)
                linear[c][x] = linear_of_srgb[(pixel[c] * alpha + behind) / 255];
        }
    }
    for (size_t x = picture->width; x < width; x++)
        for (int c = 0; c < CHANNELS; c++)
            linear[c][x] = linear[c][picture->width - 1];
}

static void walk_pictures(Walk *walk, const Picture pictures[PICTURES])
{
    Level *first = &walk->level[0];
    for (size_t y = 0; y < first->height; y++) {
        for (int k = 0; k < PICTURES; k++)
            read_row(&pictures[k], y, first->picture[k].linear, first->width);
        take_rows(walk, 0);
    }
}

/* ---- Python -------------------------------------------------------------------------------------------------------- */

/* Describes the buffer for a walk in the reference's direction. Returns 0, or -1 with an exception set. */
static int open_picture(const Reference *self, const Py_buffer *view, Picture *picture)
{
    size_t bands = (size_t)self->bands;
    /* no overflow: width * height * bands was checked against SIZE_MAX when the reference was made */
    if ((size_t)view->len != self->width * self->height * bands) {
        PyErr_Format(PyExc_ValueError, "expected %zu bytes for %zu x %zu pixels of %zu bands, got %zd",
                     self->width * self->height * bands, self->width, self->height, bands, view->len);
        return -1;
    }
    picture->pixels = view->buf;
    picture->bands = self->bands;
    picture->background = self->background;
    picture->width = self->columns_first ? self->height : self->width;
    picture->height = self->columns_first ? self->width : self->height;
    picture->step_x = self->columns_first ? self->width * bands : bands;
    picture->step_y = self->columns_first ? bands : self->width * bands;
    return 0;
}

static PyObject *reference_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pixels", "width", "height", "bands", "background", NULL};
    PyObject *pixels;
    Py_ssize_t width, height;
    int bands = 3, background = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Onn|ii", names, &pixels, &width, &height, &bands, &background))
        return NULL;
    if (width < 1 || height < 1)
        return PyErr_Format(PyExc_ValueError, "expected a picture of at least 1 x 1 pixels, got %zd x %zd", width,
                            height);
    if ((bands != 3 && bands != 4) || background < 0 || background > 255)
        return PyErr_Format(PyExc_ValueError, "expected 3 or 4 bands and a grey from 0 to 255, got %d and %d", bands,
                            background);
    size_t wide = (size_t)width < MIN_SIDE ? MIN_SIDE : (size_t)width;
    size_t tall = (size_t)height < MIN_SIDE ? MIN_SIDE : (size_t)height;
    if (wide > SIZE_MAX / tall / 4)
        return PyErr_NoMemory();

    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reference *self = (Reference *)allocate(type, 0); /* zeroed */
    if (self == NULL)
        return NULL;
    self->width = (size_t)width;
    self->height = (size_t)height;
    self->bands = bands;
    self->background = background;
    self->columns_first = wide > tall && wide > MAX_ROW_WIDTH;
    self->walked_width = self->columns_first ? tall : wide;
    self->walked_height = self->columns_first ? wide : tall;

    Picture picture;
    if (PyObject_GetBuffer(pixels, &self->pixels, PyBUF_SIMPLE) < 0 ||
        open_picture(self, &self->pixels, &picture) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void reference_dealloc(PyObject *object)
{
    Reference *self = (Reference *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->pixels.obj != NULL)
        PyBuffer_Release(&self->pixels);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *reference_norms(PyObject *object, PyObject *pixels)
{
    const Reference *self = (const Reference *)object;
    Py_buffer view;
    Picture pictures[PICTURES];
    Walk walk;
    int failed;
    if (PyObject_GetBuffer(pixels, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (open_picture(self, &self->pixels, &pictures[0]) < 0 || open_picture(self, &view, &pictures[1]) < 0) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    failed = begin_walk(&walk, self) < 0;
    if (!failed)
        walk_pictures(&walk, pictures);
    free_walk(&walk);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (failed)
        return PyErr_NoMemory();

    PyObject *norms = PyTuple_New((Py_ssize_t)walk.levels * CHANNELS * SUMS);
    Py_ssize_t at = 0;
    for (int c = 0; norms != NULL && c < CHANNELS; c++)
        for (int i = 0; norms != NULL && i < walk.levels; i++)
            for (int order = 0; norms != NULL && order < 2; order++)
                for (int map = 0; norms != NULL && map < 3; map++) {
                    const Level *level = &walk.level[i];
                    double mean = level->totals[c][2 * map + order] / ((double)level->width * level->height);
                    PyObject *number = PyFloat_FromDouble(order ? sqrt(sqrt(mean)) : mean);
                    if (number == NULL || PyTuple_SetItem(norms, at++, number) < 0)
                        Py_CLEAR(norms);
                }
    return norms;
}

static PyMethodDef reference_methods[] = {
    {"norms", reference_norms, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reference_slots[] = {
    {Py_tp_new, (void *)reference_new},
    {Py_tp_dealloc, (void *)reference_dealloc},
    {Py_tp_methods, reference_methods},
    {0, NULL},
};

static PyType_Spec reference_spec = {
    "imgproc_local.codecs.quality._ssimulacra2.Reference", sizeof(Reference), 0, Py_TPFLAGS_DEFAULT, reference_slots,
};

static int fill_module(PyObject *module)
{
    fill_transfer_curve();
    PyObject *type = PyType_FromSpec(&reference_spec);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Reference", type);
    Py_DECREF(type);
    return failed;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)fill_module},
    WITHOUT_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_ssimulacra2", NULL, 0, NULL, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__ssimulacra2(void)
{
    return PyModuleDef_Init(&module);
}
