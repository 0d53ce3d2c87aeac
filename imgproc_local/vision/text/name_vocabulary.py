"""Words and patterns of names that cameras, phones, programs and services give to files, in the supported languages."""

from __future__ import annotations


def _alternatives(lines: str) -> str:
    """One pattern of `lines`, whose alternatives are separated by `|` or line breaks."""
    return lines.strip().replace("\n", "|")


def word_set(lines: str) -> frozenset[str]:
    """The words of `lines`, which are separated by spaces or line breaks."""
    return frozenset(lines.split())


GENERATED_NAMES = _alternatives(r"""
chatgpt[ _-]image\b.*|gemini[ _-]generated[ _-]image.*|full[ _-]?size[ _-]?render.*|tumblr_.*|midjourney|copilot_\d.*
.*-[\w-]{11}-unsplash( \(\d+\))?|pexels-photo-\d.*|pexels-.*-\d{5,12}.*
(istockphoto|gettyimages|shutterstock|adobestock)[-_ ].*
(微信|QQ|企业微信)(图片|截图|圖片).*|kakaotalk[_ ].*|line_album.*|mmexport\d.*
photo on \d.*|b612_\d.*|(maxres|hq|mq|sd)default|resized_\d.*
polish_\d.*|firefly[ _]\d.*|received_\d.*|image-?asset.*|unsplash-image.*
""")
"""Whole names: of generated pictures, of downloads that name the photographer instead of the content, of messengers."""

TOOL_PREFIXES = _alternatives(r"""
^(copy of|kopie v[oa]n|kopia av|kopi a[vf]|copie de|copia d[ie]|c[oó]pia de|kopia|kopie|kopi|kópia|копи[яі]|копія)
^dall[·. ]?e|^(adobe )?firefly|^whatsapp (image|bild|afbeelding)|^(imagen|imagem) de whatsapp|^imagem do whatsapp
^(bing|microsoft) image creator|^stable[ _-]?diffusion|^chatgpt|^resized|^edited
""")
"""Prefixes that programs add; words that a person typed may follow them."""

UNTITLED = _alternatives(r"""
untitled|unnamed|no ?name|unbenannt|ohne (titel|namen)|sans (titre|nom)|sin (t[ií]tulo|nombre)|senza (titolo|nome)
sem (t[ií]tulo|nome)|zonder (titel|naam)|naamloos|namnl[oö]s|utan titel|uten (navn|tittel)|uden (navn|titel)|unavngivet
nimet[oö]n|bez (nazwy|tytu[lł]u)|bez (n[aá]zvu|jm[eé]na)|nepojmenovan[yý]|brez (imena|naslova)
bez (naziva|imena|naslova)|n[eé]vtelen|f[aă]r[aă] (titlu|nume)|ads[iı]z|ba[sş]l[iı]ks[iı]z
nimetu|pealkirjata|bez nosaukuma|be pavadinimo|sense t[ií]tol|tanpa (judul|nama)
kh[oô]ng (t[eê]n|c[oó] ti[eê]u đ[eề])
без (названия|имени|назви|імені|заглавие|име)|безымянный
χωρίς (τίτλο|όνομα)|ללא (שם|כותרת)|بدون (عنوان|اسم)|बिना शीर्षक|शीर्षकहीन|ไม่มีชื่อ|無題
名称未設定|名称未设定|未命名|无标题|無標題|제목 ?없음|이름 ?없음
""")
"""The names that programs give to files and titles until a person enters another."""

NOISE_WORDS = word_set("""
img imag dsc dscf dscn dscx dscpdc pxl mvimg mvi mov vid dji gopr gopro gp cimg sam kic dcim dc imgp mg pict crw hpim
sany wp burst mfnr hdr sdr hdrpl dav edf cof rbt btf oznor bty mde trim whatsapp signal telegram kakaotalk wechat fb
fbimg facebook insta instagram snapchat viber mmexport received lrm psx polarr vsco tumblr fullsizerender chatgpt
picsart snapseed inshot fotor canva pixabay unsplash pexels shutterstock istock istockphoto gettyimages polish
adobestock depositphotos dreamstime alamy freepik jpg jpeg png gif webp avif heic bmp tif tiff psd svg raw rgb
rgba srgb cmyk px dpi min thumb thumbs thumbnail resized scaled rescaled exif iptc xmp icc optimized optimised
compressed cropped rotated copy kopie copie copia kopia kopi kopija kópia másolat копия копія 副本 コピー 복사본
edited edit bearbeitet modifié ver version final finale finished export exported download downloads unbenannt
untitled unnamed noname titre sans tmp temp rev hd uhd fhd resize fullsize
""")
"""Words in file names that never describe the content: names that cameras, phones, messengers and stock agencies add,
and words for formats, sizes and versions."""

PICTURE_WORDS = word_set("""
image images photo photos photograph picture pictures pic pics foto fotos fotka fotografie fotografia fotografía
fotó bild bilder imagen imágenes imagem imagens immagine immagini imatge afbeelding beeld plaatje billede billeder
bilde kuva kuvat valokuva zdjęcie zdjęcia obraz obrazek obrázek obrázok snímek slika fotografija kép imagine poza
resim görsel fotoğraf pilt foto attēls attels nuotrauka paveikslėlis gambar ảnh hình фото снимок изображение
картинка зображення знімок снимка изображение εικόνα φωτογραφία תמונה צילום صورة صور فोटो फोटो चित्र तस्वीर
ภาพ รูป รูปภาพ ภาพถ่าย 写真 画像 イメージ 图片 照片 图像 圖片 相片 사진 이미지 그림 scan scans scanned skan escaneo
""")
"""Words for a picture itself."""

STOP_WORDS = PICTURE_WORDS | word_set("""
screen shot screenshot screenshots capture clip clipboard paste pasted new neu nouveau nuevo large small medium full
original orig web page file datei fichier document doc default unknown test sample example portrait landscape front
back left right top layer artboard frame figure fig slide banner header hero background bg icon logo avatar album
gallery upload uploads asset assets cover generated created at am pm um à the a an of and und et de la le les el y
in im on my mein mi mon with for von van di do da
""")
"""Words that describe the content only together with other words. A file name that consists of them is ignored."""

NUMBERED_WORDS = word_set("""
iphone ipad ipod galaxy pixel playstation ps xbox switch windows macos ios android boeing airbus apollo artemis soyuz
covid formula formel route highway interstate area gate terminal room zimmer salle porsche ferrari peugeot bmw audi
mercedes volvo saab fiat citroen renault tesla model concorde type typ class klasse level stage etappe gleis track
platform chapter kapitel chapitre episode season part teil no nr number nummer numéro número euro mark mk opus
symphony sinfonie channel kanal studio sector bus tram line linie u s top
""")
"""Words after which a number is part of the name, not a counter, even a single digit at the end (iPhone 8, Gate 4)."""
