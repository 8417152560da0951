"""Generated catalogue, used without product files; equal on every machine.

Thirty-two kinds of products in seven departments, twelve of each. Products of one kind differ in maker, attributes,
options and price, so that only a careful purchase fulfils a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from envs.support.rng import SeededRng, Stream
from envs.webshop.catalogue import Catalogue, Product, Request

SEED = 20_261_121
PER_KIND = 12

_MAKERS = """
Alderbrook Birchmere Cobaltine Dunmarsh Elmhollow Fernwick Galeharbor Hazelgate Inkberry Juniperly Kestrelway
Larkfield Mossgrove Northquay Oakenshaw Pebbleton Quillmoor Ravenbeck Sorrelby Thistledown Umberly Valewright
Willowmark Yarrowind
"""
_COLOURS = ("black", "navy", "olive", "cream", "burgundy", "teal", "gray", "mustard", "lilac", "copper")
_PRAISE = (
    "Just as described, and it arrived early.",
    "Bought a second one for my sister.",
    "Solid for the price.",
    "Smaller than I thought, but well made.",
    "Used it every day for three months, no complaints.",
    "The colour is a little darker than in the picture.",
    "Does what it should, nothing more.",
    "Would have liked a longer manual.",
    "My favourite purchase of the year.",
    "One came scratched; the shop replaced it at once.",
)


@dataclass(frozen=True)
class _Kind:
    """A kind of product: name, plural as in requests, category, attributes, options and price range."""

    name: str
    plural: str
    path: str
    traits: str
    parts: str
    options: str
    low: int
    high: int


# A kind is four lines: name, plural, department > shelf, lowest and highest price in dollars; its possible properties;
# its possible features; groups of options (a group without values takes colours).
_TABLE = """
trail backpack | trail backpacks | Outdoors > Bags | 35 | 140
water resistant, foldable, hand washable, extra light
padded straps, side pockets, chest buckle, rain cover
colour, size:20 litre/30 litre/45 litre

camping lantern | camping lanterns | Outdoors > Camp Lights | 15 | 70
rechargeable, shock proof, dimmable, floating
carry hook, red night mode, magnetic base, charge display
colour

hammock | hammocks | Outdoors > Camp Furniture | 20 | 90
quick drying, tear proof, machine washable, packable
tree straps, bug net, steel rings, storage pouch
colour, size:single/double

insulated bottle | insulated bottles | Outdoors > Drinkware | 12 | 45
leak proof, dishwasher safe, rust free, sweat free
straw lid, wide mouth, silicone boot, carry loop
colour, size:500 ml/750 ml/1 litre

bicycle light | bicycle lights | Outdoors > Cycling | 10 | 65
weather proof, rechargeable, tool free, glare free
brake sensor, rubber mount, side visibility, memory mode
style:front/rear/pair

rain jacket | rain jackets | Clothing > Outerwear | 40 | 180
wind proof, breathable, machine washable, reflective
taped seams, two way zipper, storm hood, fleece lining
colour, size:small/medium/large/x-large

wool sweater | wool sweaters | Clothing > Knitwear | 30 | 130
hand washable, itch free, slim fit, pilling resistant
ribbed cuffs, crew neck, elbow patches, raglan sleeves
colour, size:small/medium/large

canvas sneaker | canvas sneakers | Clothing > Shoes | 25 | 95
slip resistant, vegan friendly, machine washable, wide fit
memory insole, rubber sole, lace closure, padded collar
colour, size:7/8/9/10/11

running sock | running socks | Clothing > Hosiery | 8 | 30
moisture wicking, seamless, odour resistant, quick drying
arch support, cushioned heel, mesh top, grip dots
colour, size:small/medium/large

linen shirt | linen shirts | Clothing > Tops | 25 | 85
loose fit, wrinkle resistant, pre washed, breathable
button down collar, chest pocket, long sleeves, wooden buttons
colour, size:small/medium/large/x-large

desk lamp | desk lamps | Home > Lighting | 18 | 110
dimmable, flicker free, energy saving, foldable
touch control, usb port, swing arm, night timer
colour

throw blanket | throw blankets | Home > Bedding | 20 | 80
machine washable, super soft, fade resistant, double sided
fringed edge, sherpa lining, honeycomb weave, gift wrap
colour, size:50x60/60x80

bath towel | bath towels | Home > Bath | 10 | 50
quick drying, lint free, extra absorbent, colour fast
hanging loop, waffle weave, bamboo fibre, woven border
colour, size:hand/bath/sheet

storage basket | storage baskets | Home > Storage | 12 | 60
collapsible, stackable, hand woven, water resistant
leather handles, cotton lining, label window, fitted lid
colour, size:small/medium/large

bookshelf | bookshelves | Home > Furniture | 60 | 320
easy to assemble, scratch resistant, space saving, heavy duty
metal frame, wall anchors, adjustable feet, solid wood boards
finish:walnut/oak/white, size:3 tier/4 tier/5 tier

curtain panel | curtain panels | Home > Windows | 15 | 75
room darkening, noise reducing, machine washable, heat blocking
brass grommets, rod pocket, tie backs, silk touch
colour, size:63 inch/84 inch/95 inch

chef knife | chef knives | Kitchen > Cutlery | 20 | 190
rust resistant, well balanced, hand forged, dishwasher safe
full tang, walnut handle, finger guard, blade cover
size:6 inch/8 inch/10 inch

cast iron pan | cast iron pans | Kitchen > Cookware | 20 | 120
oven safe, pre seasoned, induction ready, stick resistant
pour spouts, helper handle, silicone grip, glass lid
size:8 inch/10 inch/12 inch

coffee grinder | coffee grinders | Kitchen > Coffee | 25 | 160
low noise, easy to clean, travel ready, grease free
ceramic burrs, dose timer, steel hopper, anti static cup
colour, style:manual/electric

tea kettle | tea kettles | Kitchen > Tea | 22 | 115
fast boiling, drip free, cordless, scale resistant
gooseneck spout, heat indicator, cool handle, mesh filter
colour, size:1 litre/1.7 litre

lunch box | lunch boxes | Kitchen > Containers | 10 | 45
leak proof, microwave safe, bpa free, freezer safe
snap lid, inner divider, cutlery slot, steam vent
colour, size:small/large

hand cream | hand creams | Beauty > Skin Care | 5 | 35
fragrance free, fast absorbing, cruelty free, paraben free
shea butter, almond oil, oat extract, vitamin e
scent:unscented/lavender/citrus, size:50 ml/100 ml

shampoo bar | shampoo bars | Beauty > Hair Care | 6 | 32
sulfate free, colour safe, plastic free, plant based
coconut oil, argan oil, rice protein, tea tree
scent:mint/rose/cedar, size:1 pack/2 pack/4 pack

lip balm | lip balms | Beauty > Lips | 4 | 20
long lasting, gluten free, reef safe, cruelty free
bees wax, sun filter, cocoa butter, honey extract
flavor:vanilla/cherry/plain, size:2 pack/4 pack

hair brush | hair brushes | Beauty > Tools | 7 | 40
anti static, detangling, travel sized, vegan friendly
boar bristles, bamboo handle, cushion base, rounded pins
style:paddle/round/vented

wireless earbud | wireless earbuds | Electronics > Audio | 25 | 210
noise cancelling, sweat proof, low latency, fast charging
touch control, charging case, ear hooks, dual microphones
colour

power bank | power banks | Electronics > Charging | 18 | 90
fast charging, flight safe, shock proof, pocket sized
usb c port, charge display, built in cable, solar panel
colour, size:5000 mah/10000 mah/20000 mah

computer mouse | computer mice | Electronics > Accessories | 12 | 95
silent clicking, rechargeable, left handed, ergonomic
side buttons, thumb rest, braided cable, scroll lock
colour, style:wired/wireless

phone stand | phone stands | Electronics > Accessories | 8 | 40
foldable, height adjustable, scratch resistant, case friendly
weighted base, cable slot, ball joint, silicone pads
colour

granola | granolas | Groceries > Breakfast | 6 | 42
gluten free, high protein, low sugar, nut free
dried berries, dark chocolate, chia seeds, maple syrup
flavor:honey/cinnamon/cocoa, size:1 pack/3 pack/6 pack

herbal tea | herbal teas | Groceries > Drinks | 5 | 30
caffeine free, certified organic, sugar free, fair trade
ginger root, lemon peel, mint leaves, rose hip
size:20 bags/40 bags/100 bags

trail mix | trail mixes | Groceries > Snacks | 7 | 48
non gmo, salt free, high fibre, dairy free
roasted almonds, pumpkin seeds, coconut flakes, dried mango
flavor:sweet/savoury/spicy, size:1 pack/4 pack/12 pack
"""


def _kind(block: str) -> _Kind:
    head, traits, parts, options = block.split("\n")
    name, plural, path, low, high = head.split(" | ")
    return _Kind(name, plural, path, traits, parts, options, int(low), int(high))


_KINDS = tuple(_kind(block) for block in _TABLE.strip().split("\n\n"))


@lru_cache(maxsize=4)
def catalogue(limit: int | None = None) -> Catalogue:
    """Return the generated shop: all products, or the first `limit`, with a request for every choice of options."""
    rng = SeededRng(SEED, Stream.START)
    products = [_product(rng, kind, kind_number * PER_KIND + number) for kind_number, kind, number in _places()][:limit]
    requests = tuple(
        Request(product=number, text=_request(product, attributes), attributes=attributes)
        for number, (product, attributes) in enumerate(products)
    )
    return Catalogue("generated", tuple(product for product, _ in products), requests)


def _places() -> Iterator[tuple[int, _Kind, int]]:
    """Yield kinds in rotation, so that any number of first products covers all departments."""
    for number in range(PER_KIND):
        for kind_number, kind in enumerate(_KINDS):
            yield kind_number, kind, number


def _product(rng: SeededRng, kind: _Kind, number: int) -> tuple[Product, tuple[str, ...]]:
    """Return a product, and the attributes that its request names."""
    traits = rng.sample(kind.traits.split(", "), 2)
    parts = rng.sample(kind.parts.split(", "), 2)
    maker, model = rng.choice(_MAKERS.split()), f"{rng.choice('BCDFGKLMPRT')}{rng.below(90) + 10}"
    price = kind.low + rng.below((kind.high - kind.low) * 4) / 4 - 0.01
    stars = [rng.below(3) + 3 for _ in range(rng.below(4))]
    department, shelf = kind.path.split(" > ")
    attributes = (*traits, *parts)
    product = Product(
        asin=product_id(number),
        title=f"{maker} {model} {kind.name.title()}, {traits[0].title()}, with {parts[0].title()}",
        price=price,
        price_text=f"${price:.2f}",
        description=(
            f"A {kind.name} by {maker} for those who look closely. It is {traits[0]} and comes with {parts[0]}. "
            f"People who searched for {kind.plural} kept this one."
        ),
        bullets=(*(f"{attribute.capitalize()}." for attribute in attributes), f"Model {model} of the {maker} line."),
        reviews=tuple(f"{count} of 5: {rng.choice(_PRAISE)}" for count in stars),
        rating=f"{sum(stars) / len(stars):.1f}" if stars else "N.A.",
        query=kind.plural,
        path=(department, shelf, kind.plural.title()),
        attributes=attributes,
        options=_options(rng, kind.options),
    )
    requested = rng.sample(traits, 1 + rng.below(2)) + rng.sample(parts, 1 + rng.below(2))
    return product, tuple(requested)


def product_id(number: int) -> str:
    """Return a product's id from its number, 0 to 1,999: two syllables that it shares with few others, as in "ROBA".

    A policy that copies ids token by token confuses ids with a common beginning. The last vowel is never an e, so that
    no id is an English word that may be an option.
    """
    consonants = "BDLMNRSTVZ"
    first, second = divmod(number * 1009 % 2000, 40)
    return f"{consonants[first // 5]}{'AEIOU'[first % 5]}{consonants[second // 4]}{'AIOU'[second % 4]}"


def _options(rng: SeededRng, groups: str) -> dict[str, tuple[str, ...]]:
    """Return groups of options; a product has two to four colours."""
    options = {}
    for group in groups.split(", "):
        name, _, values = group.partition(":")
        options[name] = tuple(values.split("/")) if values else tuple(rng.sample(_COLOURS, 2 + rng.below(3)))
    return options


def _request(product: Product, requested: tuple[str, ...]) -> str:
    """Return the text of a request for this product with these attributes."""
    traits = [attribute for attribute in requested if attribute in product.attributes[:2]]
    parts = [attribute for attribute in requested if attribute not in traits]
    return f"I am looking for {', '.join(traits)} {product.query} with {' and '.join(parts)}"
