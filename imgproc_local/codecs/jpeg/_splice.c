/* Puts the brightness of one JPEG and the colour of another, turned upright, into one file, coefficient by coefficient.
 *
 * Both are pictures of the same size in YCbCr with 8 bits and Huffman codes, sequential or progressive; the first was
 * written here, the second may come from anyone. The result is sequential, with the codes of annex K; who wants it
 * small has its scans packed by another program. Coefficients outside of what 8 bits can have are refused, so that no
 * program that takes the result for granted meets them.
 *
 * The second file is hostile until read: every table index, run and length is checked, scans are counted, and memory
 * grows with the size of the first picture only.
 *
 * Source: ITU-T T.81 (JPEG), annexes B (syntax), F (sequential), G (progressive), K.3 (codes).
 */

#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, MAX_SCANS = 100, COMPONENTS = 3, LOOKUP_BITS = 9 };

/* a DC of 8-bit samples; so no difference takes more than 11 bits, and no AC more than 10 */
enum { DC_LOWEST = -1024, DC_HIGHEST = 1023, AC_HIGHEST = 1023 };

/* from as many symbols as this on, a Huffman code can be longer than other programs allow for */
enum { MAX_SYMBOLS = 3000000 };

static const uint8_t ZIGZAG[BLOCK] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

typedef struct {
    int set;
    int16_t lookup[1 << LOOKUP_BITS]; /* length << 8 | symbol, 0 where the code is longer */
    int32_t first[18], last[18], offset[18];
    uint8_t symbols[256];
} Code;

typedef struct {
    int id, h, v, table;
    int width, height;           /* in blocks that hold pixels */
    int stored_width, stored_height; /* in blocks, whole MCUs */
    int dc, ac, previous;        /* of the scan at hand */
    int wanted, foreign;
    int64_t symbols;
    int16_t *blocks; /* coefficients in zigzag order; NULL where not wanted */
} Component;

typedef struct {
    const uint8_t *data;
    size_t size, at;
    uint64_t bits;
    int count, ended;
    const char *error;

    int width, height, progressive, max_h, max_v, across, down, restart;
    int orientation, frame_seen, scans, coded;
    Component component[COMPONENTS];
    uint8_t quantization[4][BLOCK];
    int quantization_set[4];
    Code dc[4], ac[4];
} File;

static int fail(File *file, const char *why)
{
    if (file->error == NULL)
        file->error = why;
    return 0;
}

static int be16(const uint8_t *p)
{
    return p[0] << 8 | p[1];
}

/* ---- bits ---- */

static void fill(File *file)
{
    while (file->count <= 48) {
        int byte = 0;
        if (!file->ended && file->at < file->size) {
            byte = file->data[file->at];
            if (byte != 0xff)
                file->at++;
            else if (file->at + 1 < file->size && file->data[file->at + 1] == 0)
                file->at += 2;
            else
                file->ended = 1, byte = 0;
        } else
            file->ended = 1;
        /* behind the end zeros are read; `coded` tells how many bits of them may be */
        file->coded += file->ended ? 0 : 8;
        file->bits = file->bits << 8 | (uint64_t)byte;
        file->count += 8;
    }
}

static int peek(File *file, int bits)
{
    if (file->count < bits)
        fill(file);
    return (int)(file->bits >> (file->count - bits) & ((1u << bits) - 1));
}

static void drop(File *file, int bits)
{
    file->count -= bits;
    file->coded -= bits;
}

static int take(File *file, int bits)
{
    if (bits == 0)
        return 0;
    int value = peek(file, bits);
    drop(file, bits);
    return value;
}

static int overrun(const File *file)
{
    return file->coded < 0;
}

static void forget_bits(File *file)
{
    file->bits = 0;
    file->count = file->ended = file->coded = 0;
}

static int symbol(File *file, const Code *code)
{
    int found = code->lookup[peek(file, LOOKUP_BITS)];
    if (found) {
        drop(file, found >> 8);
        return found & 255;
    }
    int bits = peek(file, 16);
    for (int length = LOOKUP_BITS + 1; length <= 16; length++) {
        int value = bits >> (16 - length);
        if (value <= code->last[length] && value >= code->first[length]) {
            drop(file, length);
            return code->symbols[code->offset[length] + value - code->first[length]];
        }
    }
    fail(file, "a code that no table has");
    drop(file, 16);
    return 0;
}

static int extended(int value, int bits)
{
    return bits && value < 1 << (bits - 1) ? value - (1 << bits) + 1 : value;
}

/* ---- segments ---- */

static int read_codes(File *file, const uint8_t *p, size_t size)
{
    while (size >= 17) {
        int kind = p[0] >> 4, number = p[0] & 15, total = 0;
        if (kind > 1 || number > 3)
            return fail(file, "a Huffman table with a wrong number");
        Code *code = kind ? &file->ac[number] : &file->dc[number];
        memset(code, 0, sizeof *code);
        for (int length = 1; length <= 16; length++)
            total += p[length];
        if (total > 256 || (size_t)total + 17 > size)
            return fail(file, "a Huffman table that is too long");
        memcpy(code->symbols, p + 17, (size_t)total);
        int32_t value = 0, offset = 0;
        for (int length = 1; length <= 16; length++) {
            int many = p[length];
            code->first[length] = value;
            code->last[length] = many ? value + many - 1 : -1;
            code->offset[length] = offset;
            if (value + many > 1 << length)
                return fail(file, "a Huffman table with too many codes");
            for (int i = 0; length <= LOOKUP_BITS && i < many; i++) {
                int shift = LOOKUP_BITS - length;
                for (int j = 0; j < 1 << shift; j++)
                    code->lookup[((value + i) << shift) + j] = (int16_t)(length << 8 | code->symbols[offset + i]);
            }
            value = (value + many) << 1;
            offset += many;
        }
        code->set = 1;
        p += 17 + total;
        size -= 17 + (size_t)total;
    }
    return size == 0 || fail(file, "a Huffman table that is cut off");
}

static int read_quantization(File *file, const uint8_t *p, size_t size)
{
    while (size >= 1 + BLOCK) {
        if (p[0] >> 4 || (p[0] & 15) > 3)
            return fail(file, "a quantization table of more than 8 bits");
        memcpy(file->quantization[p[0] & 15], p + 1, BLOCK);
        file->quantization_set[p[0] & 15] = 1;
        p += 1 + BLOCK;
        size -= 1 + BLOCK;
    }
    return size == 0 || fail(file, "a quantization table that is cut off");
}

static int read_frame(File *file, int marker, const uint8_t *p, size_t size, const File *like)
{
    if (marker != 0xc0 && marker != 0xc1 && marker != 0xc2)
        return fail(file, "another kind of JPEG");
    if (file->frame_seen || size < 6 + 3 * COMPONENTS || p[0] != 8 || p[5] != COMPONENTS)
        return fail(file, "not one picture of three components with 8 bits");
    file->frame_seen = 1;
    file->progressive = marker == 0xc2;
    file->height = be16(p + 1);
    file->width = be16(p + 3);
    int width = file->width, height = file->height;
    if (file->orientation >= 5) {
        width = file->height;
        height = file->width;
    }
    if (!width || !height || (like && (like->width != width || like->height != height)))
        return fail(file, "another size");
    for (int i = 0; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        one->id = p[6 + 3 * i];
        one->h = p[7 + 3 * i] >> 4;
        one->v = p[7 + 3 * i] & 15;
        one->table = p[8 + 3 * i];
        if (one->table > 3 || one->h < 1 || one->v < 1 || one->h > 2 || one->v > 2 || (i && (one->h > 1 || one->v > 1)))
            return fail(file, "another sampling");
        if (i && one->id == file->component[i - 1].id)
            return fail(file, "components that can't be told apart");
    }
    if (file->component[0].id == 'R' || file->component[0].id == file->component[2].id)
        return fail(file, "not YCbCr");
    file->max_h = file->component[0].h;
    file->max_v = file->component[0].v;
    file->across = (file->width + 8 * file->max_h - 1) / (8 * file->max_h);
    file->down = (file->height + 8 * file->max_v - 1) / (8 * file->max_v);
    for (int i = 0; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        one->width = ((file->width * one->h + file->max_h - 1) / file->max_h + 7) / 8;
        one->height = ((file->height * one->v + file->max_v - 1) / file->max_v + 7) / 8;
        one->stored_width = file->across * one->h;
        one->stored_height = file->down * one->v;
        one->wanted = (i > 0) == (like != NULL);
        one->foreign = like != NULL;
        if (one->wanted) {
            one->blocks = calloc((size_t)one->stored_width * one->stored_height, BLOCK * sizeof(int16_t));
            if (one->blocks == NULL)
                return fail(file, "no memory");
        }
    }
    return 1;
}

/* ---- scans ---- */

typedef struct {
    int count, first, last, high, low;
    Component *component[COMPONENTS];
    int run; /* of blocks that end early */
} Scan;

static int put(File *file, Component *one, int16_t *block, int k, int value)
{
    if (k ? value > AC_HIGHEST || value < -AC_HIGHEST : value > DC_HIGHEST || value < DC_LOWEST)
        return fail(file, "a coefficient that no picture has");
    block[k] = (int16_t)value;
    return ++one->symbols <= MAX_SYMBOLS || !one->foreign || fail(file, "too many coefficients");
}

static int dc_difference(File *file, Component *one)
{
    int bits = symbol(file, &file->dc[one->dc]);
    if (bits > 12)
        return fail(file, "a coefficient that no picture has");
    one->previous += extended(take(file, bits), bits);
    if (one->previous > 1 << 14 || one->previous < -(1 << 14))
        return fail(file, "a coefficient that no picture has");
    return 1;
}

static int sequential_block(File *file, Component *one, int16_t *block)
{
    if (!dc_difference(file, one))
        return 0;
    if (block && !put(file, one, block, 0, one->previous))
        return 0;
    for (int k = 1; k < BLOCK; k++) {
        int found = symbol(file, &file->ac[one->ac]), run = found >> 4, bits = found & 15;
        if (bits == 0) {
            if (run != 15)
                break;
            k += 15;
            continue;
        }
        k += run;
        if (k >= BLOCK || bits > 10)
            return fail(file, "a coefficient that no picture has");
        int value = extended(take(file, bits), bits);
        if (block && !put(file, one, block, k, value))
            return 0;
    }
    return 1;
}

static int dc_block(File *file, Component *one, const Scan *scan, int16_t *block)
{
    if (scan->high) {
        return !take(file, 1) || block == NULL || put(file, one, block, 0, block[0] | 1 << scan->low);
    }
    if (!dc_difference(file, one))
        return 0;
    return block == NULL || put(file, one, block, 0, one->previous * (1 << scan->low));
}

static int ac_first_block(File *file, Component *one, Scan *scan, int16_t *block)
{
    if (scan->run) {
        scan->run--;
        return 1;
    }
    for (int k = scan->first; k <= scan->last; k++) {
        int found = symbol(file, &file->ac[one->ac]), run = found >> 4, bits = found & 15;
        if (bits == 0) {
            if (run < 15) {
                scan->run = (1 << run) - 1 + take(file, run);
                break;
            }
            k += 15;
            continue;
        }
        k += run;
        if (k > scan->last || bits > 10)
            return fail(file, "a coefficient that no picture has");
        if (!put(file, one, block, k, extended(take(file, bits), bits) * (1 << scan->low)))
            return 0;
    }
    return 1;
}

static int refine(File *file, int16_t *coefficient, int low)
{
    if (take(file, 1) && !(abs(*coefficient) & 1 << low)) {
        int value = *coefficient + (*coefficient > 0 ? 1 << low : -(1 << low));
        if (value > AC_HIGHEST || value < -AC_HIGHEST)
            return fail(file, "a coefficient that no picture has");
        *coefficient = (int16_t)value;
    }
    return 1;
}

static int ac_refine_block(File *file, Component *one, Scan *scan, int16_t *block)
{
    int k = scan->first;
    if (scan->run == 0) {
        for (; k <= scan->last; k++) {
            int found = symbol(file, &file->ac[one->ac]), run = found >> 4, bits = found & 15, value = 0;
            if (bits > 1)
                return fail(file, "a coefficient that no picture has");
            if (bits)
                value = take(file, 1) ? 1 << scan->low : -(1 << scan->low);
            else if (run < 15) {
                scan->run = (1 << run) + take(file, run);
                break;
            }
            for (; k <= scan->last; k++) {
                if (block[k]) {
                    if (!refine(file, &block[k], scan->low))
                        return 0;
                } else if (run-- == 0)
                    break;
            }
            if (value) {
                if (k > scan->last)
                    return fail(file, "a run that leaves its block");
                if (!put(file, one, block, k, value))
                    return 0;
            }
        }
    }
    if (scan->run) {
        for (; k <= scan->last; k++)
            if (block[k] && !refine(file, &block[k], scan->low))
                return 0;
        scan->run--;
    }
    return 1;
}

static int decode_block(File *file, Component *one, Scan *scan, int column, int row)
{
    int16_t *block = one->blocks ? one->blocks + ((size_t)row * one->stored_width + column) * BLOCK : NULL;
    int done;
    if (!file->progressive)
        done = sequential_block(file, one, block);
    else if (scan->first == 0)
        done = dc_block(file, one, scan, block);
    else
        done = scan->high ? ac_refine_block(file, one, scan, block) : ac_first_block(file, one, scan, block);
    return done && file->error == NULL && (!overrun(file) || fail(file, "a scan that breaks off"));
}

static int restarted(File *file, Scan *scan)
{
    forget_bits(file);
    while (file->at + 1 < file->size && file->data[file->at] == 0xff && file->data[file->at + 1] == 0xff)
        file->at++;
    if (file->at + 1 >= file->size || file->data[file->at] != 0xff || (file->data[file->at + 1] & 0xf8) != 0xd0)
        return fail(file, "a missing restart marker");
    file->at += 2;
    scan->run = 0;
    for (int i = 0; i < scan->count; i++)
        scan->component[i]->previous = 0;
    return 1;
}

static int decode_scan(File *file, Scan *scan)
{
    Component *only = scan->count == 1 ? scan->component[0] : NULL;
    int across = only ? only->width : file->across, down = only ? only->height : file->down, left = file->restart;
    for (int row = 0; row < down; row++)
        for (int column = 0; column < across; column++) {
            if (file->restart && left-- == 0) {
                if (!restarted(file, scan))
                    return 0;
                left = file->restart - 1;
            }
            if (only) {
                if (!decode_block(file, only, scan, column, row))
                    return 0;
                continue;
            }
            for (int i = 0; i < scan->count; i++) {
                Component *one = scan->component[i];
                for (int y = 0; y < one->v; y++)
                    for (int x = 0; x < one->h; x++)
                        if (!decode_block(file, one, scan, column * one->h + x, row * one->v + y))
                            return 0;
            }
        }
    return 1;
}

static int read_scan(File *file, const uint8_t *p, size_t size)
{
    Scan scan = {0};
    if (!file->frame_seen || size < 1 || (scan.count = p[0]) < 1 || scan.count > COMPONENTS ||
        size < (size_t)(4 + 2 * scan.count))
        return fail(file, "a scan that makes no sense");
    if (++file->scans > MAX_SCANS)
        return fail(file, "too many scans");
    scan.first = p[1 + 2 * scan.count];
    scan.last = p[2 + 2 * scan.count];
    scan.high = p[3 + 2 * scan.count] >> 4;
    scan.low = p[3 + 2 * scan.count] & 15;
    if (file->progressive ? scan.first > scan.last || scan.last >= BLOCK || (scan.first == 0 && scan.last) ||
                                (scan.first && scan.count > 1) || scan.low > 10 ||
                                (scan.high && scan.high != scan.low + 1)
                          : scan.first || scan.last != BLOCK - 1 || scan.high || scan.low)
        return fail(file, "a scan that makes no sense");
    int next = 0, wanted = 0;
    for (int i = 0; i < scan.count; i++) {
        while (next < COMPONENTS && file->component[next].id != p[1 + 2 * i])
            next++;
        if (next == COMPONENTS)
            return fail(file, "a scan of a component that is not there");
        Component *one = scan.component[i] = &file->component[next++];
        one->dc = p[2 + 2 * i] >> 4;
        one->ac = p[2 + 2 * i] & 15;
        one->previous = 0;
        wanted |= one->wanted;
        int needs_dc = scan.first == 0 && !scan.high, needs_ac = !file->progressive || scan.first;
        if (one->dc > 3 || one->ac > 3 || (needs_dc && !file->dc[one->dc].set) || (needs_ac && !file->ac[one->ac].set))
            return fail(file, "a scan without its codes");
    }
    forget_bits(file);
    if (wanted && !decode_scan(file, &scan))
        return 0;
    return 1;
}

static int read_file(File *file, const File *like)
{
    const uint8_t *data = file->data;
    if (file->size < 4 || data[0] != 0xff || data[1] != 0xd8)
        return fail(file, "no JPEG");
    for (file->at = 2;;) {
        /* what is left of a scan, and stray bytes, are passed over */
        const uint8_t *found = file->at < file->size ? memchr(data + file->at, 0xff, file->size - file->at) : NULL;
        if (found == NULL || (size_t)(found - data) + 1 >= file->size)
            return fail(file, "no end marker");
        file->at = (size_t)(found - data) + 1;
        int marker = data[file->at];
        if (marker == 0xff)
            continue;
        file->at++;
        if (marker == 0xd9)
            return file->scans > 0 || fail(file, "no scan");
        if (marker <= 1 || (marker >= 0xd0 && marker <= 0xd8))
            continue;
        if (file->at + 2 > file->size)
            return fail(file, "a segment that is cut off");
        size_t length = (size_t)be16(data + file->at);
        if (length < 2 || file->at + length > file->size)
            return fail(file, "a segment that is cut off");
        const uint8_t *p = data + file->at + 2;
        size_t size = length - 2;
        file->at += length;
        int good = 1;
        if (marker == 0xc4)
            good = read_codes(file, p, size);
        else if (marker == 0xdb)
            /* a table that changes between scans would hold for some of them only */
            good = file->scans ? fail(file, "a quantization table between scans") : read_quantization(file, p, size);
        else if (marker == 0xdd)
            good = size == 2 ? (file->restart = be16(p), 1) : fail(file, "a restart interval that makes no sense");
        else if (marker == 0xda)
            good = read_scan(file, p, size);
        else if (marker == 0xee && size >= 12 && memcmp(p, "Adobe", 5) == 0)
            good = p[11] == 1 || fail(file, "not YCbCr");
        else if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc8)
            good = read_frame(file, marker, p, size, like);
        if (!good)
            return 0;
    }
}

/* ---- turning ---- */

static void swap(int *one, int *other)
{
    int kept = *one;
    *one = *other;
    *other = kept;
}

/* Turns colours as EXIF's orientation says. Edges that come from the right or the bottom must be those of whole MCUs. */
static int turn(File *file)
{
    int transposed = file->orientation >= 5;
    int mirrored = file->orientation == 2 || file->orientation == 3 || file->orientation >= 7;
    int flipped = file->orientation == 3 || file->orientation == 4 || file->orientation == 6 || file->orientation == 7;
    if ((mirrored && file->width % (8 * file->max_h)) || (flipped && file->height % (8 * file->max_v)))
        return fail(file, "an edge within a block that would not be an edge any more");
    int position[BLOCK], place[BLOCK], sign[BLOCK];
    for (int k = 0; k < BLOCK; k++)
        position[ZIGZAG[k]] = k;
    for (int k = 0; k < BLOCK; k++) {
        int across = ZIGZAG[k] % 8, down = ZIGZAG[k] / 8;
        place[k] = transposed ? position[across * 8 + down] : k;
        sign[k] = ((mirrored && across & 1) ^ (flipped && down & 1)) ? -1 : 1;
    }
    for (int i = 1; i < COMPONENTS; i++) {
        Component *one = &file->component[i];
        int width = one->stored_width, height = one->stored_height, line = transposed ? height : width;
        int16_t *blocks = malloc((size_t)width * height * BLOCK * sizeof(int16_t));
        if (blocks == NULL)
            return fail(file, "no memory");
        for (int row = 0; row < height; row++)
            for (int column = 0; column < width; column++) {
                int x = mirrored ? width - 1 - column : column, y = flipped ? height - 1 - row : row;
                if (transposed)
                    swap(&x, &y);
                const int16_t *from = one->blocks + ((size_t)row * width + column) * BLOCK;
                int16_t *to = blocks + ((size_t)y * line + x) * BLOCK;
                for (int k = 0; k < BLOCK; k++)
                    to[place[k]] = (int16_t)(sign[k] * from[k]);
            }
        free(one->blocks);
        one->blocks = blocks;
        if (transposed) {
            swap(&one->width, &one->height);
            swap(&one->stored_width, &one->stored_height);
        }
    }
    for (int table = 0; transposed && table < 4; table++) {
        uint8_t turned[BLOCK];
        for (int k = 0; k < BLOCK; k++)
            turned[place[k]] = file->quantization[table][k];
        memcpy(file->quantization[table], turned, BLOCK);
    }
    if (transposed) {
        swap(&file->max_h, &file->max_v);
        swap(&file->across, &file->down);
    }
    return 1;
}

/* ---- writing ---- */

typedef struct {
    uint8_t *data;
    size_t size, room;
    uint64_t bits;
    int count, failed;
} Out;

typedef struct {
    uint16_t code[256];
    uint8_t length[256];
} Writer;

static void byte_out(Out *out, int byte)
{
    if (out->size == out->room) {
        size_t room = out->room + out->room / 2 + 65536;
        uint8_t *data = realloc(out->data, room);
        if (data == NULL) {
            out->failed = 1;
            return;
        }
        out->data = data;
        out->room = room;
    }
    out->data[out->size++] = (uint8_t)byte;
}

static void bytes_out(Out *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        byte_out(out, bytes[i]);
}

static void bits_out(Out *out, unsigned value, int bits)
{
    out->bits = out->bits << bits | (value & ((1u << bits) - 1));
    out->count += bits;
    while (out->count >= 8) {
        out->count -= 8;
        int byte = (int)(out->bits >> out->count & 255);
        byte_out(out, byte);
        if (byte == 255)
            byte_out(out, 0);
    }
}

/* annex K.3, as a DHT segment holds them: brightness and colour, DC and AC */
static const uint8_t CODES[] = {
    0x00, 0x00, 0x01, 0x05, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    0x10, 0x00, 0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00, 0x01, 0x7d,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14,
    0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82, 0x09,
    0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a,
    0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65,
    0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88,
    0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9,
    0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca,
    0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea,
    0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
    0x01, 0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b,
    0x11, 0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01, 0x02, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32,
    0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16,
    0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39,
    0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
    0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86,
    0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8,
    0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9,
    0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa,
};

static void read_writer(Writer *writer, const uint8_t *p)
{
    const uint8_t *symbols = p + 17;
    unsigned code = 0;
    for (int length = 1; length <= 16; length++) {
        for (int i = 0; i < p[length]; i++, symbols++) {
            writer->code[*symbols] = (uint16_t)code++;
            writer->length[*symbols] = (uint8_t)length;
        }
        code <<= 1;
    }
}

static int magnitude(int value)
{
    unsigned rest = (unsigned)abs(value);
    int bits = 0;
    for (; rest; rest >>= 1)
        bits++;
    return bits;
}

static void value_out(Out *out, const Writer *writer, int found, int value, int bits)
{
    bits_out(out, writer->code[found], writer->length[found]);
    if (bits)
        bits_out(out, (unsigned)(value < 0 ? value - 1 : value), bits);
}

static void block_out(Out *out, const int16_t *block, int *previous, const Writer *dc, const Writer *ac)
{
    int difference = block[0] - *previous, bits = magnitude(difference), run = 0;
    *previous = block[0];
    value_out(out, dc, bits, difference, bits);
    for (int k = 1; k < BLOCK; k++) {
        if (block[k] == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            value_out(out, ac, 0xf0, 0, 0);
        bits = magnitude(block[k]);
        value_out(out, ac, run << 4 | bits, block[k], bits);
        run = 0;
    }
    if (run)
        value_out(out, ac, 0, 0, 0);
}

static void segment_out(Out *out, int marker, size_t size)
{
    uint8_t head[4] = {0xff, (uint8_t)marker, (uint8_t)((size + 2) >> 8), (uint8_t)(size + 2)};
    bytes_out(out, head, 4);
}

static int write_file(Out *out, const File *luma, const File *chroma)
{
    static const uint8_t start[] = {0xff, 0xd8}, end[] = {0xff, 0xd9};
    static const uint8_t jfif[] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
    Writer codes[4];
    memset(codes, 0, sizeof codes);
    const uint8_t *p = CODES;
    for (int i = 0; i < 4; i++) {
        read_writer(&codes[i], p);
        int total = 17;
        for (int length = 1; length <= 16; length++)
            total += p[length];
        p += total;
    }
    bytes_out(out, start, sizeof start);
    segment_out(out, 0xe0, sizeof jfif);
    bytes_out(out, jfif, sizeof jfif);
    const Component *parts[COMPONENTS] = {&luma->component[0], &chroma->component[1], &chroma->component[2]};
    int one_table = parts[1]->table == parts[2]->table;
    for (int i = 0; i < (one_table ? 2 : 3); i++) {
        const File *file = i ? chroma : luma;
        segment_out(out, 0xdb, 1 + BLOCK);
        byte_out(out, i);
        bytes_out(out, file->quantization[parts[i]->table], BLOCK);
    }
    uint8_t frame[15] = {8, (uint8_t)(luma->height >> 8), (uint8_t)luma->height, (uint8_t)(luma->width >> 8),
                         (uint8_t)luma->width, 3, 1, (uint8_t)(chroma->max_h << 4 | chroma->max_v), 0,
                         2, 0x11, 1, 3, 0x11, (uint8_t)(one_table ? 1 : 2)};
    segment_out(out, 0xc0, sizeof frame);
    bytes_out(out, frame, sizeof frame);
    segment_out(out, 0xc4, sizeof CODES);
    bytes_out(out, CODES, sizeof CODES);
    static const uint8_t scan[] = {3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0};
    segment_out(out, 0xda, sizeof scan);
    bytes_out(out, scan, sizeof scan);

    static const int16_t empty[BLOCK] = {0};
    int previous[COMPONENTS] = {0};
    for (int row = 0; row < chroma->down; row++)
        for (int column = 0; column < chroma->across; column++)
            for (int i = 0; i < COMPONENTS; i++) {
                const Component *one = parts[i];
                int h = i ? 1 : chroma->max_h, v = i ? 1 : chroma->max_v;
                for (int y = row * v; y < row * v + v; y++)
                    for (int x = column * h; x < column * h + h; x++) {
                        int16_t flat[BLOCK];
                        const int16_t *block = empty;
                        if (x < one->stored_width && y < one->stored_height)
                            block = one->blocks + ((size_t)y * one->stored_width + x) * BLOCK;
                        if (!i && (x >= one->width || y >= one->height)) {
                            /* no pixel is here: the same brightness as before takes the fewest bits */
                            memset(flat, 0, sizeof flat);
                            flat[0] = (int16_t)previous[i];
                            block = flat;
                        }
                        block_out(out, block, &previous[i], &codes[i ? 2 : 0], &codes[i ? 3 : 1]);
                        if (out->failed)
                            return 0;
                    }
            }
    if (out->count)
        bits_out(out, 0x7f, 8 - out->count);
    bytes_out(out, end, sizeof end);
    return !out->failed;
}

/* ---- Python ---- */

static PyObject *spliced(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer luma, chroma;
    int orientation = 1;
    if (!PyArg_ParseTuple(args, "y*y*|i", &luma, &chroma, &orientation))
        return NULL;
    File *files = calloc(2, sizeof *files);
    Out out = {0};
    int done = 0;
    const char *why = "no memory";
    if (files != NULL) {
        Py_BEGIN_ALLOW_THREADS
        files[0].data = luma.buf;
        files[0].size = (size_t)luma.len;
        files[1].data = chroma.buf;
        files[1].size = (size_t)chroma.len;
        files[1].orientation = orientation;
        done = read_file(&files[0], NULL) && read_file(&files[1], &files[0]);
        for (int i = 0; done && i < COMPONENTS; i++)
            done = files[i > 0].quantization_set[files[i > 0].component[i].table] ||
                   fail(&files[i > 0], "no quantization table");
        done = done && (orientation <= 1 || turn(&files[1])) && write_file(&out, &files[0], &files[1]);
        Py_END_ALLOW_THREADS
        if (files[0].error || files[1].error)
            why = files[0].error ? files[0].error : files[1].error;
        for (int i = 0; i < COMPONENTS; i++) {
            free(files[0].component[i].blocks);
            free(files[1].component[i].blocks);
        }
        free(files);
    }
    PyBuffer_Release(&luma);
    PyBuffer_Release(&chroma);
    PyObject *result = NULL;
    if (done)
        result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.size);
    else
        PyErr_Format(PyExc_ValueError, "The JPEGs can't be spliced: %s.", why);
    free(out.data);
    return result;
}

static PyMethodDef functions[] = {
    {"spliced", spliced, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_splice", NULL, 0, functions, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__splice(void)
{
    return PyModuleDef_Init(&module);
}
