/* Prepares an RGB picture for lossy WebP, which stores chroma at half the width and height.
 *
 * libwebp averages the chroma of each 2x2 block, and decoders interpolate it. At coloured edges this changes the chroma
 * and with it the luminance. Here each pixel is shifted along the grey axis until the interpolated result has the
 * luminance of the source, and each block is shifted in chroma until libwebp stores the average of the linear light.
 * libwebp's own "sharp YUV" has the same aim, at about four times the CPU time.
 *
 * Values are taken to be sRGB, also those of pictures with another profile.
 *
 * Invariants: the interpreter's lock is released while pixels are computed; results are the same on every processor,
 * since no multiplication is fused with an addition (see setup.py).
 *
 * Source: RGB to YUV conversion and gamma of libwebp (src/enc/picture_csp_enc.c); interpolation with weights 9, 3, 3, 1
 * as in its decoder (src/dsp/upsampling.c); luminance and transfer curve of sRGB from IEC 61966-2-1.
 */

#include "_extension.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 2,
    STEPS = 4096,      /* of the inverse tables */
    SCRATCH_ROWS = 19, /* rows of floats that `adjust_blocks` needs */
};

static const float MAX_SHIFT = 24.0f / 255.0f; /* along the grey axis, in each round */
static const float CORRECTION = 0.4f; /* part of the remaining error in chroma that the second round corrects */
static const double WEBP_GAMMA = 0.8;
static const float TO_UNIT = 1.0f / 255.0f; /* scales an 8-bit value to 0 to 1 */

static float webp_light_of[256];        /* by 8-bit value */
static float webp_value_of[STEPS + 1];  /* 0 to 1; the index is light * STEPS */
static float srgb_of[STEPS + 1];        /* 0 to 1; the index is sqrt(light) * STEPS */

/* Values and light are 0 to 1 unless stated otherwise. The transfer curve of sRGB is approximated, within 0.003, so that
 * the compiler can compute several pixels at once. */
INLINE float light_of(float v)
{
    return v * (v * (v * 0.305306011f + 0.682171111f) + 0.012522878f);
}

INLINE float light_slope(float v)
{
    return v * (v * 0.915918033f + 1.364342222f) + 0.012522878f;
}

static void fill_tables(void)
{
    for (int i = 0; i < 256; i++)
        webp_light_of[i] = (float)pow(i / 255.0, WEBP_GAMMA);
    for (int i = 0; i <= STEPS; i++) {
        double step = (double)i / STEPS, light = step * step, value = step;
        for (int n = 0; n < 20; n++) /* Newton's method: only the exact inverse leaves flat areas unchanged */
            value -= (light_of((float)value) - light) / light_slope((float)value);
        srgb_of[i] = (float)value;
        webp_value_of[i] = (float)pow(step, 1.0 / WEBP_GAMMA);
    }
}

INLINE float value_of(float light)
{
    return srgb_of[(int)(sqrtf(light) * STEPS + 0.5f)];
}

INLINE float u_of(float r, float g, float b)
{
    return -0.168736f * r - 0.331264f * g + 0.5f * b;
}

INLINE float v_of(float r, float g, float b)
{
    return 0.5f * r - 0.418688f * g - 0.081312f * b;
}

INLINE float limited(float value, float least, float most)
{
    value = value < least ? least : value;
    return value > most ? most : value;
}

typedef struct {
    const unsigned char *source; /* rows of `bands` bytes per pixel, `stride` bytes apart */
    unsigned char *result;       /* the same layout; begins as a copy of the source */
    size_t width, height;        /* of the part that consists of whole blocks */
    size_t bands, stride;
    float *source_u, *source_v;  /* chroma of each block of the source, averaged in linear light */
    float *wanted_u, *wanted_v;  /* chroma that libwebp should store for each block */
    float *stored_u, *stored_v;  /* chroma that libwebp would store for each block of `result` as it is */
    float *scratch;              /* SCRATCH_ROWS rows of `width` floats */
} Picture;

INLINE void read_pixels(const unsigned char *bytes, size_t bands, float scale, float *RESTRICT r, float *RESTRICT g,
                        float *RESTRICT b, size_t n)
{
    for (size_t x = 0; x < n; x++) {
        r[x] = (float)bytes[x * bands] * scale;
        g[x] = (float)bytes[x * bands + 1] * scale;
        b[x] = (float)bytes[x * bands + 2] * scale;
    }
}

WIDE static void read_row(const unsigned char *bytes, size_t bands, float scale, float *const rgb[3], size_t n)
{
    if (bands == 3)
        read_pixels(bytes, 3, scale, rgb[0], rgb[1], rgb[2], n);
    else
        read_pixels(bytes, 4, scale, rgb[0], rgb[1], rgb[2], n);
}

static void write_row(unsigned char *bytes, size_t bands, float *const rgb[3], size_t n)
{
    for (size_t x = 0; x < n; x++, bytes += bands)
        for (int band = 0; band < 3; band++)
            bytes[band] = (unsigned char)rgb[band][x];
}

/* Chroma of the mean in linear light of each 2x2 block, given the light of two rows. */
WIDE static void block_chroma(float *const upper[3], float *const lower[3], float *RESTRICT u, float *RESTRICT v,
                              size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        float mean[3];
        for (int band = 0; band < 3; band++) {
            const float *a = upper[band] + 2 * i, *b = lower[band] + 2 * i;
            mean[band] = value_of(0.25f * ((a[0] + a[1]) + (b[0] + b[1])));
        }
        u[i] = u_of(mean[0], mean[1], mean[2]);
        v[i] = v_of(mean[0], mean[1], mean[2]);
    }
}

WIDE static void to_light(float *RESTRICT row, size_t n)
{
    for (size_t x = 0; x < n; x++)
        row[x] = light_of(row[x]);
}

/* The chroma that libwebp would store for `result`. */
static void find_stored_chroma(Picture *p)
{
    for (size_t y = 0; y < p->height; y += 2)
        for (size_t x = 0; x < p->width; x += 2) {
            const unsigned char *a = p->result + y * p->stride + x * p->bands, *b = a + p->stride;
            size_t block = y / 2 * (p->width / 2) + x / 2;
            float rgb[3];
            for (int i = 0; i < 3; i++) {
                float sum = (webp_light_of[a[i]] + webp_light_of[a[p->bands + i]]) +
                            (webp_light_of[b[i]] + webp_light_of[b[p->bands + i]]);
                rgb[i] = webp_value_of[(int)(sum * (0.25f * STEPS) + 0.5f)];
            }
            p->stored_u[block] = u_of(rgb[0], rgb[1], rgb[2]);
            p->stored_v[block] = v_of(rgb[0], rgb[1], rgb[2]);
        }
}

/* A row of interpolated chroma from the nearest row of blocks and the second nearest; `mixed` has n / 2 floats. */
WIDE static void interpolate(const float *near, const float *far, float *RESTRICT mixed, float *RESTRICT out, size_t n)
{
    size_t blocks = n / 2;
    for (size_t i = 0; i < blocks; i++)
        mixed[i] = 0.75f * near[i] + 0.25f * far[i];
    out[0] = mixed[0];
    out[n - 1] = mixed[blocks - 1];
    for (size_t i = 0; i + 1 < blocks; i++) {
        out[2 * i + 1] = 0.75f * mixed[i] + 0.25f * mixed[i + 1];
        out[2 * i + 2] = 0.25f * mixed[i] + 0.75f * mixed[i + 1];
    }
}

/* The shift of each pixel along the grey axis that gives it the luminance of the source, r, g, b. On entry r2, g2, b2
 * are the values of the result so far; on return, the light that a decoder shows for them with the chroma u, v. */
WIDE static void find_grey(const float *RESTRICT r, const float *RESTRICT g, const float *RESTRICT b,
                           float *RESTRICT r2, float *RESTRICT g2, float *RESTRICT b2,
                           const float *RESTRICT u, const float *RESTRICT v, float *RESTRICT grey, size_t n)
{
    for (size_t x = 0; x < n; x++) {
        float y = 0.299f * r2[x] + 0.587f * g2[x] + 0.114f * b2[x];
        float red = limited(y + 1.402f * v[x], 0.0f, 1.0f);
        float green = limited(y - 0.344136f * u[x] - 0.714136f * v[x], 0.0f, 1.0f);
        float blue = limited(y + 1.772f * u[x], 0.0f, 1.0f);
        float slope = 0.2126f * light_slope(red) + 0.7152f * light_slope(green) + 0.0722f * light_slope(blue);
        float red_light = light_of(red), green_light = light_of(green), blue_light = light_of(blue);
        float missing = 0.2126f * (light_of(r[x]) - red_light) + 0.7152f * (light_of(g[x]) - green_light) +
                        0.0722f * (light_of(b[x]) - blue_light);
        grey[x] = limited(missing / slope, -MAX_SHIFT, MAX_SHIFT);
        r2[x] = red_light;
        g2[x] = green_light;
        b2[x] = blue_light;
    }
}

/* Shifts a band of a row, in values of 0 to 255, along the grey axis and by one tint for both pixels of a block. Adds
 * 0.5, because `write_row` truncates. */
WIDE static void move_band(float *RESTRICT row, const float *RESTRICT grey, const float *RESTRICT tint, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        row[2 * i] = limited(row[2 * i] + 255.0f * (grey[2 * i] + tint[i]), 0.0f, 255.0f) + 0.5f;
        row[2 * i + 1] = limited(row[2 * i + 1] + 255.0f * (grey[2 * i + 1] + tint[i]), 0.0f, 255.0f) + 0.5f;
    }
}

/* The shift of each band that changes the chroma of a block by u, v. */
WIDE static void tints(const float *RESTRICT u, const float *RESTRICT v, float *RESTRICT red, float *RESTRICT green,
                       float *RESTRICT blue, size_t blocks)
{
    for (size_t i = 0; i < blocks; i++) {
        red[i] = 1.402f * v[i];
        green[i] = -0.344136f * u[i] - 0.714136f * v[i];
        blue[i] = 1.772f * u[i];
    }
}

typedef struct {
    float *source[3], *now[3], *u, *v, *grey;
} Row;

/* Moves the pixels of a row of blocks towards the luminance of the source and the wanted chroma. With `correct`, the
 * wanted chroma is first corrected by the error of the chroma shown. */
static void adjust_blocks(Picture *p, size_t row, int correct)
{
    size_t n = p->width, blocks = n / 2, above = row ? row - 1 : 0, below = row + 1 < p->height / 2 ? row + 1 : row;
    Row halves[2];
    float *next = p->scratch;
    for (int half = 0; half < 2; half++) {
        for (int band = 0; band < 3; band++) {
            halves[half].source[band] = next, next += n;
            halves[half].now[band] = next, next += n;
        }
        halves[half].u = next, next += n;
        halves[half].v = next, next += n;
        halves[half].grey = next, next += n;
    }
    float *block_u = next, *block_v = next + blocks; /* of each block: first shown, then missing chroma */
    for (int half = 0; half < 2; half++) {
        size_t far = (half ? below : above) * blocks, at = (2 * row + (size_t)half) * p->stride;
        read_row(p->source + at, p->bands, TO_UNIT, halves[half].source, n);
        read_row(p->result + at, p->bands, TO_UNIT, halves[half].now, n);
        interpolate(p->stored_u + row * blocks, p->stored_u + far, block_u, halves[half].u, n);
        interpolate(p->stored_v + row * blocks, p->stored_v + far, block_u, halves[half].v, n);
        Row *h = &halves[half];
        find_grey(h->source[0], h->source[1], h->source[2], h->now[0], h->now[1], h->now[2], h->u, h->v, h->grey, n);
    }
    float *wanted_u = p->wanted_u + row * blocks, *wanted_v = p->wanted_v + row * blocks;
    if (correct) {
        block_chroma(halves[0].now, halves[1].now, block_u, block_v, blocks);
        for (size_t i = 0; i < blocks; i++) {
            wanted_u[i] += CORRECTION * (p->source_u[row * blocks + i] - block_u[i]);
            wanted_v[i] += CORRECTION * (p->source_v[row * blocks + i] - block_v[i]);
        }
    }
    for (size_t i = 0; i < blocks; i++) {
        block_u[i] = wanted_u[i] - p->stored_u[row * blocks + i];
        block_v[i] = wanted_v[i] - p->stored_v[row * blocks + i];
    }
    float *tint[3] = {halves[0].u, halves[0].v, halves[1].u}; /* the interpolated chroma is no longer needed */
    tints(block_u, block_v, tint[0], tint[1], tint[2], blocks);
    for (size_t half = 0; half < 2; half++) {
        unsigned char *bytes = p->result + (2 * row + half) * p->stride;
        read_row(bytes, p->bands, 1.0f, halves[half].now, n);
        for (int band = 0; band < 3; band++)
            move_band(halves[half].now[band], halves[half].grey, tint[band], blocks);
        write_row(bytes, p->bands, halves[half].now, n);
    }
}

static void find_source_chroma(Picture *p)
{
    size_t n = p->width, blocks = n / 2;
    float *upper[3], *lower[3];
    for (int band = 0; band < 3; band++) {
        upper[band] = p->scratch + 2 * (size_t)band * n;
        lower[band] = upper[band] + n;
    }
    for (size_t row = 0; row < p->height / 2; row++) {
        read_row(p->source + 2 * row * p->stride, p->bands, TO_UNIT, upper, n);
        read_row(p->source + (2 * row + 1) * p->stride, p->bands, TO_UNIT, lower, n);
        for (int band = 0; band < 3; band++) {
            to_light(upper[band], n);
            to_light(lower[band], n);
        }
        block_chroma(upper, lower, p->source_u + row * blocks, p->source_v + row * blocks, blocks);
    }
}

static int adjust(Picture *p)
{
    size_t blocks = p->width / 2 * (p->height / 2);
    if (blocks == 0)
        return 0;
    p->source_u = malloc((6 * blocks + SCRATCH_ROWS * p->width) * sizeof(float)); /* holds the other arrays too */
    if (p->source_u == NULL)
        return -1;
    p->source_v = p->source_u + blocks;
    p->wanted_u = p->source_v + blocks;
    p->wanted_v = p->wanted_u + blocks;
    p->stored_u = p->wanted_v + blocks;
    p->stored_v = p->stored_u + blocks;
    p->scratch = p->stored_v + blocks;
    find_source_chroma(p);
    memcpy(p->wanted_u, p->source_u, 2 * blocks * sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        find_stored_chroma(p);
        for (size_t row = 0; row < p->height / 2; row++)
            adjust_blocks(p, row, round > 0);
    }
    free(p->source_u);
    return 0;
}

static PyObject *adjusted(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *pixels;
    Py_ssize_t width, height;
    int bands;
    if (!PyArg_ParseTuple(args, "Onni", &pixels, &width, &height, &bands))
        return NULL;
    if (width < 1 || height < 1 || (bands != 3 && bands != 4))
        return PyErr_Format(PyExc_ValueError, "expected at least 1 x 1 pixels of 3 or 4 bands, got %zd x %zd of %d",
                            width, height, bands);
    Py_buffer view;
    if (PyObject_GetBuffer(pixels, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (view.len % bands || (view.len / bands) % width || view.len / bands / width != height) {
        PyErr_Format(PyExc_ValueError, "expected %zd x %zd pixels of %d bands, got %zd bytes", width, height, bands,
                     view.len);
        PyBuffer_Release(&view);
        return NULL;
    }
    PyObject *result = PyBytes_FromStringAndSize(view.buf, view.len);
    int failed = 0;
    if (result != NULL) {
        Picture picture = {
            .source = view.buf,
            .result = (unsigned char *)PyBytes_AsString(result),
            .width = (size_t)width / 2 * 2,
            .height = (size_t)height / 2 * 2,
            .bands = (size_t)bands,
            .stride = (size_t)width * (size_t)bands,
        };
        Py_BEGIN_ALLOW_THREADS
        failed = adjust(&picture) < 0;
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    if (failed) {
        Py_DECREF(result);
        return PyErr_NoMemory();
    }
    return result;
}

static PyMethodDef functions[] = {
    {"adjusted", adjusted, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    (void)module;
    fill_tables();
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)fill_module},
    WITHOUT_GIL
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_webp_chroma", NULL, 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__webp_chroma(void)
{
    return PyModuleDef_Init(&module);
}
