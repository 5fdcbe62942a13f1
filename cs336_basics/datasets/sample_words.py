"""The words of the sample corpus: names, animals, places, things, and small turns of phrase.

Two kinds of material, both written in the little template language of `sample.py`:

- `ROLES`: tables of what a story casts once and then keeps ("the kite that was lost is the kite
  that is found"). Columns are separated by `|`; the header names the fields. The first field is
  the role itself, so `{place}` is "the park" and `{place.at}` is "in the park".
- `LISTS`: phrases drawn afresh at every use, one per line. A line that stands twice is drawn twice
  as often.

People and things have tables of their own, which `sample.py` turns into entries of the same form.
"""

from __future__ import annotations

# Names whose possessive is plain ("Lily's", never "Iris's"), from many places. A few carry
# letters beyond ASCII, so that every step of the library meets characters of several bytes.
BOYS = """
Ben Tom Sam Max Leo Jack Tim Finn Noah Oscar Henry Theo Omar Ravi Kofi Diego Mateo Hugo Felix Arlo
Jonah Eli Hassan Kenji Luca Milo Ned Otto Peter Rory Simon Toby Victor Wes Yusuf Zane René José
André Björn
"""
GIRLS = """
Lily Mia Anna Ella Emma Rosie Lucy Grace Ruby Ivy Nora Maya Amina Priya Mei Yuki Sofia Clara Daisy
Edith Freya Greta Hannah June Kate Leila Molly Nina Olive Poppy Rosa Sara Tessa Uma Violet Willa
Zara Zoë Chloé Renée
"""
ANIMAL_BOYS = """
Pip Bramble Biscuit Moss Acorn Rusty Benny Chester Digby Gus Huckle Jasper Monty Oakley Pepper
Quill Scout Tumble Waffle Barnaby Button Conker Dash Noël
"""
ANIMAL_GIRLS = """
Hazel Nutmeg Clover Fern Thistle Willow Luna Maple Juniper Pearl Misty Penny Bluebell Dotty Flora
Ginger Honey Minty Poppet Saffron Tilly Velvet Whisper Cocoa
"""

CHILD_HOMES = """
a small white house by the sea
a tall brick house in the middle of town
a little cottage at the edge of the woods
a cozy flat above the bakery
a yellow house on top of a hill
a farmhouse at the end of a long lane
a blue house with a red door
a narrow house beside the river
a stone cottage with roses around the door
a sunny house next to the school
house number 12 on Maple Street
house number 7 on Lantern Lane
a wooden house in a quiet village
a crooked old house with a green roof
a houseboat on a slow river
an old mill at the foot of the mountains
an apartment above the café on the corner
"""

# Each animal with a home that suits it.
ANIMALS = """
rabbit   | [a snug burrow under the hill|a warm burrow beside the carrot field]
fox      | [a cozy den in the woods|a den under the roots of an old oak]
bear     | [a dry cave in the mountains|a warm cave behind the waterfall]
mouse    | [a tiny hole behind the kitchen wall|an old boot at the edge of the field]
hedgehog | [a nest of dry leaves under the hedge|a hollow beneath the garden shed]
squirrel | [a hollow high up in an oak tree|a round nest in the tallest pine tree]
otter    | [a snug den on the bank of the river|a holt beside the mill stream]
badger   | [a deep, dry home under a beech tree|a tidy house of tunnels in the woods]
kitten   | [a soft basket by the kitchen stove|a barn full of sweet hay]
puppy    | [a blue kennel behind the farmhouse|a big box with a woolly blanket]
piglet   | [a cozy pen on a farm|a muddy yard behind the red barn]
lamb     | [a green meadow beside the farm|a field of clover below the hills]
duckling | [a nest of reeds beside the pond|a soft nest under the bridge]
beaver   | [a lodge of sticks in the middle of the lake|a wooden lodge on the river]
raccoon  | [a hollow log at the edge of the woods|an old treehouse in the forest]
chipmunk | [a tunnel under a stone wall|a little room beneath a tree stump]
elephant | [a grassy valley beside a wide river|a sunny land of tall yellow grass]
panda    | [a bamboo forest high in the hills|a misty valley full of bamboo]
pony     | [a red stable at the end of the lane|a stable that smelled of hay]
monkey   | [a leafy tree in the middle of the jungle|a house of vines above the river]
tortoise | [a shady corner of the garden|a warm hollow under a flat stone]
"""

# Each line is one thing and the adjectives that suit it: "a bouncy ball", "an old flute".
THINGS = """
ball             : red, striped, bouncy, big yellow
kite             : orange, rainbow, paper, long-tailed
teddy bear       : soft, fluffy, brown, one-eyed
doll             : pretty, rag, tiny, smiling
toy train        : wooden, green, shiny, little
toy boat         : blue, white, wooden, tin
drum             : red, loud, round, tin
whistle          : silver, tin, shiny, wooden
music box        : tiny, golden, old, painted
picture book     : big, thick, funny, old
marble           : blue, glass, green, shiny
bracelet         : silver, beaded, pretty, golden
hat              : straw, pointy, woolly, purple
scarf            : long, warm, striped, pink
blanket          : soft, blue, patchwork, woolly
umbrella         : yellow, spotted, red, enormous
wagon            : red, wooden, sturdy, little
spinning top     : colorful, humming, wooden, red
yo-yo            : yellow, orange, shiny, wooden
robot            : silver, tin, funny, wind-up
puppet           : wooden, silly, woolly, old
lantern          : brass, paper, glowing, little
compass          : brass, old, tiny, golden
bell             : silver, golden, tiny, brass
seashell         : pink, white, curly, smooth
feather          : blue, white, long, speckled
pebble           : smooth, round, speckled, white
button           : golden, shiny, pearl, red
spyglass         : brass, long, old, shiny
paintbox         : new, little, tin, colorful
jump rope        : pink, long, striped, new
snow globe       : glass, glittering, tiny, magical
toy car          : red, fast, metal, tiny
toy airplane     : wooden, silver, paper, blue
toy dinosaur     : green, fierce, plastic, spiky
toy rabbit       : velvet, floppy, gray, soft
piñata           : bright, paper, star-shaped, colorful
flute            : wooden, bamboo, silver, old
harmonica        : shiny, small, silver, old
pencil case      : blue, leather, zippered, new
backpack         : green, new, small, canvas
mirror           : round, silver, little, oval
basket           : woven, round, little, willow
pinwheel         : paper, bright, whirling, pink
crown            : paper, golden, sparkling, little
ring             : silver, golden, thin, sparkling
candle           : tall, white, honey-scented, red
medal            : gold, round, bronze, shiny
notebook         : red, small, spotted, empty
sled             : wooden, fast, blue, old
fishing rod      : bamboo, long, new, bent
watering can     : tin, green, dented, little
cushion          : velvet, round, plump, embroidered
necklace         : coral, amber, silver, simple
ribbon           : satin, crimson, silky, checkered
tambourine       : jingling, small, painted, wooden
trumpet          : brass, dented, loud, golden
guitar           : small, wooden, old, scratched
globe            : spinning, big, dusty, colorful
magnifying glass : round, brass, useful, thick
map              : torn, secret, yellowed, folded
puzzle           : wooden, difficult, colorful, new
quilt            : cozy, patched, feathery, checkered
cape             : crimson, velvet, swirling, magical
mask             : feathered, paper, golden, funny
helmet           : tin, shiny, silver, heavy
toy tractor      : rusty, green, sturdy, rattling
toy rocket       : silver, pointed, plastic, white
toy lion         : golden, cuddly, plush, brave-looking
toy giraffe      : tall, spotted, knitted, patched
toy penguin      : tiny, plump, waddling, plush
toy unicorn      : white, sparkling, knitted, soft
kaleidoscope     : magical, glittering, cardboard, brass
diary            : secret, leather, locked, lilac
butterfly net    : green, long, homemade, fine
fan              : paper, lacy, painted, silken
hourglass        : dusty, golden, slender, tiny
pocket watch     : silver, ticking, antique, gleaming
rocking horse    : dappled, wooden, gray, carved
clay bird        : painted, turquoise, clumsy, shiny
bow tie          : purple, dotted, elegant, velvet
flashlight       : bright, rubber, waterproof, yellow
telescope        : long, brass, powerful, dusty
treasure chest   : carved, heavy, mysterious, tiny
horseshoe        : lucky, iron, rusty, old
"""

ROLES = {
    "trait": """
trait
kind
cheerful
curious
brave
gentle
clever
merry
quiet
playful
helpful
lively
friendly
polite
thoughtful
honest
hopeful
eager
careful
patient
dreamy
""",
    "parent": """
parent | call   | he  | him | his
mom    | Mom    | she | her | her
mother | Mother | she | her | her
mama   | Mama   | she | her | her
dad    | Dad    | he  | him | his
father | Father | he  | him | his
papa   | Papa   | he  | him | his
""",
    "grandparent": """
grandparent | call    | he  | him | his
grandmother | Grandma | she | her | her
grandma     | Grandma | she | her | her
granny      | Granny  | she | her | her
nana        | Nana    | she | her | her
grandfather | Grandpa | he  | him | his
grandpa     | Grandpa | he  | him | his
""",
    "neighbor": """
neighbor         | he  | him | his
Mr. Alder        | he  | him | his
Mr. Brown        | he  | him | his
Mr. Okafor       | he  | him | his
Mr. Pennywhistle | he  | him | his
Mr. Tanaka       | he  | him | his
Mr. Woodrow      | he  | him | his
Señor Gómez      | he  | him | his
Mrs. Finch       | she | her | her
Mrs. Gray        | she | her | her
Mrs. Hill        | she | her | her
Mrs. Lindqvist   | she | her | her
Mrs. Patel       | she | her | her
Mrs. Quince      | she | her | her
Miss Plum        | she | her | her
""",
    # The animals who give advice. None of them is a hero's kind, so no rabbit meets "the rabbit".
    "helper": """
helper               | kind      | he  | him | his
wise old owl         | owl       | she | her | her
slow green turtle    | turtle    | he  | him | his
clever black crow    | crow      | he  | him | his
cheerful robin       | robin     | she | her | her
friendly toad        | toad      | he  | him | his
tiny snail           | snail     | he  | him | his
gentle deer          | deer      | she | her | her
grumpy old goat      | goat      | he  | him | his
tall gray heron      | heron     | he  | him | his
busy bumblebee       | bumblebee | she | her | her
yellow butterfly     | butterfly | she | her | her
small brown cricket  | cricket   | he  | him | his
white swan           | swan      | she | her | her
proud goose          | goose     | she | her | her
patient donkey       | donkey    | he  | him | his
strong old horse     | horse     | he  | him | his
spotted ladybug      | ladybug   | she | her | her
quick blue dragonfly | dragonfly | he  | him | his
shy mole             | mole      | he  | him | his
plump pigeon         | pigeon    | she | her | her
singing blackbird    | blackbird | he  | him | his
sleepy bat           | bat       | he  | him | his
orange cat           | cat       | she | her | her
shaggy brown dog     | dog       | he  | him | his
""",
    # Small creatures in need: what they cry, and where their mother is to be found.
    "creature": """
creature     | kind    | cry    | home
baby bird    | bird    | cheep  | the nest in the apple tree
baby turtle  | turtle  | squeak | the warm sand by the lake
spotted fawn | fawn    | bleat  | the thicket at the edge of the woods
gray gosling | gosling | peep   | the reeds by the river
yellow chick | chick   | cheep  | the henhouse on the farm
little owlet | owlet   | hoot   | the hollow in the old elm
small calf   | calf    | moo    | the field behind the barn
tiny frog    | frog    | croak  | the lily pads on the pond
little goat  | goat    | bleat  | the rocky slope above the village
baby swallow | swallow | chirp  | the mud nests under the roof
young seal   | seal    | bark   | the rocks beside the sea
tiny bat     | bat     | squeak | the dark bell tower
""",
    "place": """
place               | at                     | scene
the park            | in the park            | [the ducks were splashing in the pond|a man was selling balloons by the gate|the roses were in bloom]
the beach           | at the beach           | [small waves rolled over the sand|seagulls cried above the water|the sand was warm and soft]
the meadow          | in the meadow          | [bees hummed in the clover|butterflies danced over the daisies|the grass was full of crickets]
the woods           | in the woods           | [the leaves whispered in the wind|sunlight fell through the branches|a woodpecker tapped on a tree]
the hill            | on the hill            | [the wind smelled of wild thyme|white clouds sailed by like ships|sheep nibbled the short grass]
the river           | by the river           | [the water sparkled in the sun|silver fish jumped over the stones|a kingfisher flashed by]
the garden          | in the garden          | [the tomatoes were turning red|a thrush sang on the gate|the sunflowers nodded their heads]
the farm            | on the farm            | [the hens scratched in the straw|a tractor rumbled across the field|the cows were chewing slowly]
the village square  | in the village square  | [a fountain splashed and sparkled|an old man played the accordion|pigeons strutted over the stones]
the market          | at the market          | [the stalls were full of ripe fruit|a baker called out his prices|people talked and laughed]
the orchard         | in the orchard         | [the branches were heavy with fruit|wasps buzzed around the plums|ladders leaned against the trees]
the playground      | at the playground      | [the swings squeaked in the breeze|the slide shone in the sun|the seesaw went up and down]
the lake            | by the lake            | [a white sail moved far away|the reeds rustled softly|the water was as smooth as glass]
the pond            | by the pond            | [frogs sat on the lily pads|dragonflies darted to and fro|the ducklings swam in a row]
the old bridge      | by the old bridge      | [the stream gurgled over the pebbles|moss grew on the gray stones|a trout hid in the shadow]
the harbor          | at the harbor          | [the fishing boats rocked gently|ropes creaked and flags flapped|the air tasted of salt]
the old mill        | by the old mill        | [the big wheel turned slowly|swallows flew in and out|flour dust floated in the light]
the waterfall       | by the waterfall       | [a little rainbow hung in the spray|ferns grew on the wet rocks|the water roared and foamed]
the field           | in the field           | [the wheat waved like a golden sea|a lark sang high above|poppies glowed in the corn]
the lighthouse      | by the lighthouse      | [the beam swept over the waves|puffins nested on the cliffs|foam sprayed against the rocks]
the windmill        | by the windmill        | [the sails creaked around and around|sacks of grain stood by the door|a donkey dozed in the shade]
the railway station | at the railway station | [a steam engine hissed and puffed|travelers waited with their suitcases|a whistle blew]
the castle ruins    | in the castle ruins    | [jackdaws circled around the tower|lizards warmed themselves on the steps|nettles grew in the great hall]
the marsh           | in the marsh           | [herons waded through the shallow water|cattails swayed to and fro|mist curled over the puddles]
the fairground      | at the fairground      | [the merry-go-round played a jolly waltz|cotton candy floated by on sticks|a juggler tossed burning torches]
the vineyard        | in the vineyard        | [the vines climbed up their poles|purple bunches hung in rows|a scarecrow flapped its sleeves]
the schoolyard      | in the schoolyard      | [chalk drawings covered the ground|a bell rang twice|chestnuts dropped from the tree]
the canal           | by the canal           | [a barge slid slowly past|anglers sat on folding stools|the bridge was reflected in the water]
the valley          | in the valley          | [goat bells tinkled on the slopes|the brook chattered to itself|an echo answered every call]
the greenhouse      | in the greenhouse      | [cucumbers dangled from above|the glass was misty|it was as warm as in the jungle]
the cherry grove    | in the cherry grove    | [petals drifted down like snow|bumblebees drowsed in the blossoms|a hammock hung between two trunks]
the stone wall      | by the stone wall      | [a lizard lay in the sun|ivy grew between the stones|snails slept in the cracks]
""",  # noqa: E501 (a table keeps its columns)
    "breakable": """
breakable            | noun       | broke                                       | mend
blue china vase      | vase       | it fell to the floor and broke in 3 pieces  | glued the pieces together
tall glass lamp      | lamp       | it tipped over, and the shade tore          | sewed up the shade
old wooden clock     | clock      | it dropped with a crash and stopped ticking | put the little wheels back in place
painted teapot       | teapot     | the handle snapped off                      | fixed the handle with strong glue
white garden chair   | chair      | one of its legs cracked                     | nailed on a new leg
little glass horse   | horse      | one of its legs broke off                   | joined the leg with a drop of glue
favorite yellow cup  | cup        | the cup slipped and lost its handle         | made a new handle out of wire
round mirror         | mirror     | a long crack ran across the glass           | put in a new piece of glass
wooden picture frame | frame      | the corner split in two                     | pressed the corner together again
big flower pot       | flower pot | it rolled off the wall and broke in half    | tied the halves with wire
straw basket         | basket     | the bottom fell out                         | wove a new bottom out of straw
string of pearls     | necklace   | the string tore, and 20 pearls rolled away  | put the pearls on a new string
""",  # noqa: E501
    "food": """
food              | it   | they | was
warm bread        | it   | it   | was
blueberry muffins | them | they | were
honey cakes       | them | they | were
red apples        | them | they | were
cheese sandwiches | them | they | were
strawberry tarts  | them | they | were
oatmeal cookies   | them | they | were
plum cake         | it   | it   | was
roasted chestnuts | them | they | were
pancakes          | them | they | were
apple pie         | it   | it   | was
crêpes            | them | they | were
jam rolls         | them | they | were
sweet cherries    | them | they | were
ripe raspberries  | them | they | were
buttered popcorn  | it   | it   | was
gingerbread       | it   | it   | was
banana bread      | it   | it   | was
pumpkin pie       | it   | it   | was
lemon cookies     | them | they | were
rice pudding      | it   | it   | was
juicy pears       | them | they | were
peaches           | them | they | were
walnut bread      | it   | it   | was
cinnamon buns     | them | they | were
corn muffins      | them | they | were
dumplings         | them | they | were
carrot cake       | it   | it   | was
vanilla wafers    | them | they | were
potato pancakes   | them | they | were
almond biscuits   | them | they | were
maple candy       | it   | it   | was
apricots          | them | they | were
purple plums      | them | they | were
hazelnut bars     | them | they | were
coconut cookies   | them | they | were
waffles           | them | they | were
salty pretzels    | them | they | were
croissants        | them | they | were
blackberry pie    | it   | it   | was
sponge cake       | it   | it   | was
peppermint drops  | them | they | were
melon slices      | them | they | were
garlic bread      | it   | it   | was
rhubarb crumble   | it   | it   | was
grapes            | them | they | were
""",
    "spot": """
spot
under the bed
behind the sofa
inside the big cupboard
under the kitchen table
in the laundry basket
on top of the shelf
behind the curtain
in the toy box
under the rug
inside the old trunk
beneath the stairs
behind the clock
beside the fireplace
under the pillow
in the bottom drawer
next to the broom
""",
    "outspot": """
outspot
under a pile of leaves
between two flat stones
in the tall grass
behind a thorny bush
on top of a tree stump
next to a puddle
at the foot of a tree
beside a red mushroom
under an old bench
in a hollow log
behind a fence post
among the dandelions
""",
    # `ing` follows "tired of", `fail` and `success` are whole clauses.
    "skill": """
skill              | ing                | fail                                                          | success
ride a bicycle     | riding a bicycle   | {he} wobbled left, wobbled right, and fell into a bush        | {he} rode all the way down the lane without falling once
swim               | swimming           | {he} kicked and splashed, but {his} nose went under the water | {he} swam all the way across the pond
whistle            | whistling          | {he} puffed and puffed, but only air came out                 | a clear, sweet note rang out like the song of a bird
skate              | skating            | {his} feet slid away, and {he} sat down hard on the ice       | {he} glided over the ice like a swan
climb the old oak  | climbing           | {he} slipped and slid back down to the ground                 | {he} sat on the highest branch and waved
jump rope          | jumping rope       | the rope caught {his} feet, and {he} tumbled over             | {he} jumped 30 times in a row
juggle             | juggling           | the apples rolled all over the floor                          | three apples flew around and around in the air
play the flute     | playing the flute  | the flute squeaked like a rusty door                          | a soft, happy tune filled the air
play the violin    | playing the violin | the strings screeched like an angry cat                       | the violin sang as sweetly as a nightingale
bake bread         | baking bread       | the bread came out as flat as a plate                         | the bread came out round and golden
dance              | dancing            | {he} tripped over {his} own feet                              | {he} spun around as lightly as a leaf
paint              | painting           | the colors ran together into one brown puddle                 | {he} painted a red sunset over a purple sea
catch a ball       | catching a ball    | the ball bounced right off {his} nose                         | the ball landed safely in {his} arms
read               | reading            | the letters looked like tiny black ants                       | {he} read a whole page aloud, from top to bottom
count to 100       | counting           | {he} got lost somewhere after 29                              | {he} counted all the way to 100
write {his} name   | writing            | the letters leaned over like tired soldiers                   | {his} name stood straight and proud on the paper
row a boat         | rowing             | the boat went around and around in circles                    | the boat slid straight across the lake
knit               | knitting           | the wool turned into one big knot                             | a long, warm scarf grew under {his} needles
fly a kite         | flying a kite      | the kite dropped to the ground like a stone                   | the kite climbed up, up, up into the blue sky
do a somersault    | doing somersaults  | {he} toppled over like a sack of potatoes                     | {he} rolled over and landed right on {his} feet
tie a bow          | tying bows         | the ribbon came undone again and again                        | the bow sat neat and tight on the box
build a sandcastle | building           | the tower crumbled and the walls fell down                    | the castle had 4 towers, a gate, and a little flag
play chess         | playing chess      | {his} king was caught after only 3 moves                      | {he} won a whole game without a single mistake
ski                | skiing             | {his} legs crossed, and {he} rolled down the slope            | {he} swooped down the slope in wide, easy curves
sew                | sewing             | the thread tangled and the needle pricked {his} thumb         | {his} tiny stitches ran as straight as a ruler
blow bubbles       | blowing bubbles    | every bubble popped before it left the straw                  | a shimmering bubble as big as a melon floated away
yodel              | yodeling           | {he} sounded like a rusty hinge                               | {his} voice bounced from mountain to mountain
throw a boomerang  | throwing           | the boomerang landed in the rain barrel                       | the boomerang circled the yard and came right back
walk on stilts     | walking on stilts  | {he} took one step and landed in the flowerbed                | {he} walked around the yard as tall as a giraffe
""",  # noqa: E501
    "task": """
task               | past
rake the leaves    | raked the leaves
water the flowers  | watered the flowers
feed the hens      | fed the hens
paint the fence    | painted the fence
carry the firewood | carried the firewood
sweep the porch    | swept the porch
pick the apples    | picked the apples
weed the garden    | weeded the garden
mend the gate      | mended the gate
wash the windows   | washed the windows
brush the donkey   | brushed the donkey
fold the laundry   | folded the laundry
peel the potatoes  | peeled the potatoes
dust the shelves   | dusted the shelves
dig up the carrots | dug up the carrots
polish the spoons  | polished the spoons
scrub the kettles  | scrubbed the kettles
gather the eggs    | gathered the eggs
trim the hedge     | trimmed the hedge
shell the peas     | shelled the peas
fetch the water    | fetched the water
stack the crates   | stacked the crates
wind up the wool   | wound up the wool
sort the buttons   | sorted the buttons
milk the goat      | milked the goat
""",
    "plant": """
plant       | sprout                | bloom
sunflower   | a thick green stem    | a yellow flower as big as a plate
pumpkin     | a curly green vine    | a round orange pumpkin
bean        | a thin green shoot    | a row of long, crisp beans
rose        | a small thorny stem   | a red rose that smelled of honey
tulip       | one smooth green leaf | a tulip as pink as the evening sky
strawberry  | three small leaves    | a fat, sweet strawberry
lemon tree  | a shiny little leaf   | a bright yellow lemon
cherry tree | a slender brown twig  | a cloud of white blossoms
tomato      | a hairy green stem    | a plump red tomato
daffodil    | a green tip           | a golden daffodil
watermelon  | a creeping vine       | a watermelon as heavy as a stone
pea         | a tiny green curl     | a pod with 8 sweet peas inside
bluebell    | a thin blade          | a ring of little blue bells
""",
    "ingredient": """
ingredient | one                   | it   | was
eggs       | a bowl of eggs        | them | were
flour      | a cup of flour        | it   | was
sugar      | a bag of sugar        | it   | was
butter     | a pot of butter       | it   | was
milk       | a jug of milk         | it   | was
honey      | a jar of honey        | it   | was
apples     | a basket of apples    | them | were
cinnamon   | a pinch of cinnamon   | it   | was
walnuts    | a handful of walnuts  | them | were
raisins    | a box of raisins      | them | were
vanilla    | a spoonful of vanilla | it   | was
lemons     | a pair of lemons      | them | were
""",
    "dish": """
dish           | noun
chocolate cake | cake
apple pie      | pie
honey cake     | cake
berry tart     | tart
birthday cake  | cake
walnut cake    | cake
lemon tart     | tart
carrot cake    | cake
cherry pie     | pie
""",
    "game": """
game              | played
hide-and-seek     | played hide-and-seek
tag               | chased each other around the trees
leapfrog          | hopped over each other like frogs
marbles           | rolled marbles in the dust
hopscotch         | hopped from square to square
catch             | threw a ball back and forth
pirates           | sailed the seven seas on a fallen log
explorers         | searched for hidden treasure
follow-the-leader | marched up and down in a line
house             | built a little house out of branches
""",
    # Obstacles on the road: what stood in the way, and how it was passed.
    "obstacle": """
obstacle                                        | passed
a fallen tree lay across the path               | {He} climbed over it, one foot at a time.
a stream had washed away the bridge             | {He} hopped from stone to stone until {he} reached the other side.
a thick fog rolled over the road                | {He} walked slowly and followed the sound of a bell.
a flock of geese stood in the way and hissed    | {He} tossed them some crumbs, and the geese waddled off.
the path split in two                           | {He} looked at the moss on the trees and turned left.
a strong wind blew {his} hat away               | {He} ran after it and caught it by the brim.
a big muddy puddle blocked the road             | {He} laid down a plank and walked across like a dancer.
a swarm of gnats buzzed around {his} ears       | {He} waved a fern like a fan until they gave up.
the lane was slippery with ice                  | {He} slid along on {his} bottom, laughing all the while.
a troll made of snow seemed to guard the bridge | {He} came closer and saw that it was only a snowy bush.
a flock of sheep filled the whole road          | {He} waited politely until the last lamb had trotted by.
a gate was locked                               | {He} squeezed through a gap in the hedge.
a grumpy bull stared over the fence             | {He} tiptoed past without a sound.
a hill rose before {him}, steep and stony       | {He} sang a marching song and climbed it step by step.
rain began to pour                              | {He} held a big leaf over {his} head and walked on.
""",  # noqa: E501
    "noise": """
noise              | source
a scratching sound | a mother cat with 4 tiny kittens
a soft tapping     | a branch that knocked on the window
a strange humming  | a swarm of bees building a hive under the roof
a squeaking sound  | a family of bats who were waking up
a low rumbling     | an old cat who was snoring on a cushion
a rattling sound   | a hedgehog who was eating from a tin bowl
a whispering sound | the wind that blew through a hole in the wall
a slow dripping    | a leaky pipe above a rusty bucket
a quiet rustling   | two mice who were making a nest out of paper
a gentle cooing    | a pair of doves who had flown in
a thumping sound   | a rabbit who was drumming with its feet
""",
    "talent": """
talent          | do               | did
sing            | sing a song      | sang {his} song
dance           | do a dance       | danced and twirled
play the flute  | play the flute   | played a merry tune
play the drum   | play the drum    | drummed like falling rain
tell stories    | tell a story     | told a story about a brave little snail
recite poems    | recite a poem    | spoke every line of {his} poem
do magic tricks | do a magic trick | pulled 5 scarves out of an empty hat
play the fiddle | play the fiddle  | played a fast and happy jig
tell jokes      | tell jokes       | told the joke about the singing potato
""",
    "age": """
age
four
five
six
seven
eight
4
5
6
7
8
""",
    "vessel": """
vessel      | made
raft        | tied seven logs together with a rope
little boat | nailed old boards together and stopped the holes with wax
sailboat    | made a sail out of an old blanket
canoe       | hollowed out a fallen log
""",
    "wish": """
wish                         | trouble                                                                  | undo
a mountain of candy          | candy filled the house up to the ceiling, and nobody could open the door | a simple bowl of soup
wings like a bird            | the wind blew {him} over the roofs, and {he} could not come down         | two feet on the ground
a castle of gold             | the golden rooms were cold, and nobody laughed there                     | my warm little home
the loudest voice of all     | every word shook the windows, and {his} friends covered their ears       | my own voice back
a day without end            | the sun never set, and {he} grew so tired that {he} could hardly stand   | a quiet, dark night
snow in the middle of summer | the flowers froze, and the bees had nothing to eat                       | the warm sun again
the longest hair of all      | the hair grew out of the window and got caught in the trees              | my old hair back
a hundred puppies            | the puppies chewed the chairs and chased the hens                        | one quiet afternoon
ice cream for every meal     | {his} tummy hurt, and {his} teeth ached                                  | a plate of plain potatoes
legs as long as ladders      | {he} could not fit through any door, and the crows laughed at {him}      | my own short legs
""",  # noqa: E501
}

LISTS = {
    "day": """
one day
one day
one day
one morning
one sunny morning
one bright morning
early one morning
one afternoon
one warm afternoon
one fine day
one Saturday
one Sunday morning
one windy day
one cloudy morning
one day in spring
one summer day
one day in the autumn
one Tuesday after lunch
at 9 o'clock one morning
""",
    "opening": """
Once upon a time, there was {a trait} [little |young |]{kind} named {hero}. {Hero} lived in {home}.
Once upon a time, there was {a trait} [little |young |]{kind} named {hero}. {He} loved to <hobby>.
Once upon a time, in {home}, there lived {a trait} [little |]{kind} named {hero}.
Once upon a time, there was a little {kind} called {hero}. {Hero} was very {trait}, and {he} loved to <hobby>.
There once was {a trait} [little |young |]{kind} [named|called] {hero}, who lived in {home}.
{Hero} was {a trait} [little |young |]{kind} who loved to <hobby>. {He} lived in {home}[ with {his} {parent}|].
In {home} lived {a trait} [little |young |]{kind} whose name was {hero}.
Long ago, {a trait} [little |young |]{kind} named {hero} lived in {home}. {Hero} liked to <hobby>.
""",  # noqa: E501
    "hobby": """
draw pictures
sing songs
climb trees
collect shells
count the stars
build tall towers
chase butterflies
dance in the rain
listen to stories
dig deep holes
paint with bright colors
look for ladybugs
splash in puddles
hum little tunes
pick flowers
skip stones across the pond
ask questions
make up rhymes
roll down hills
watch the clouds
whistle with a blade of grass
bake mud pies
read old maps
listen to the frogs
invent silly words
balance on fences
wave at passing trains
plan adventures
feed the birds
explore new places
""",
    # Small sentences that only paint the scene; outdoors, by day.
    "aside": """
<A bird> sang [on the fence|in the hedge|on the roof|in a tree].
The air smelled of <smell>.
[Far away|Somewhere], a [church bell|rooster|train|dog|tractor|cowbell] could be heard.
A [white|small|fluffy|round] cloud drifted over the [hills|rooftops|trees].
The sky was [blue|clear and blue|as blue as a forget-me-not].
A [breeze|light wind|soft wind] [stirred the leaves|played in the grass|shook the branches].
The [grass|path|moss] was [still wet with dew|warm from the sun|soft under {his} feet].
A [beetle|grasshopper|caterpillar|spider|centipede] [crossed the path|sat on a leaf|hurried by].
Two [squirrels|magpies|hares|lizards] [chased each other|played|peeped out] among the [stones|roots|ferns|bushes].
The shadows of the [poplars|birches|maples|willows] were [long|short|cool|dark].
Somebody had left a [ladder|bucket|wheelbarrow|rake] under the [pear|plum|walnut|chestnut] tree.
[Dandelions|Violets|Buttercups|Thistles|Snowdrops] grew [along the path|between the stones|by the gate].
A [bus|bicycle|wagon|truck] rattled down the road.
[Smoke|Steam|Laughter|Music] rose from [the bakery|a chimney|an open window|the inn].
An old [clock|bell] struck [ten|eleven|three|four].
The [blackberries|hazelnuts|elderberries] were [almost|not yet] ripe.
""",  # noqa: E501
    "bird": """
robin
sparrow
thrush
blackbird
finch
lark
starling
wren
cuckoo
""",
    "smell": """
fresh bread
cut grass
lavender
pine needles
wood smoke
ripe apples
mint
roses
the sea
coffee from the café
honeysuckle
fresh paint
damp earth
cinnamon
jasmine
""",
    "happy": """
happy
happy
glad
proud
cheerful
delighted
joyful
""",
    "sad": """
sad
sad
unhappy
gloomy
miserable
upset
""",
    "scared": """
scared
afraid
frightened
nervous
""",
    "nice": """
lovely
wonderful
beautiful
pretty
splendid
amazing
marvelous
""",
    "kindly": """
kindly
gently
softly
warmly
quietly
""",
    "toldto": """
told {his} {parent} all about it
told {his} {parent} the whole story
told {his} {parent} everything
""",
    "drink": """
a cup of hot cocoa
a glass of cold milk
a mug of warm milk with honey
a glass of lemonade
a cup of peppermint tea
""",
    "night": """
That night, {hero} [fell asleep with a smile|slept better than ever before|dreamed sweet dreams].
That evening, {hero} <toldto>.
When the [moon rose|stars came out|sun went down], {hero} was tired but very <happy>.
{His} {parent} [gave {him} a big hug|kissed {him} good night] and said, "I am proud of you."
Before {he} closed {his} eyes, {hero} whispered, "What <a nice> day."
Even years later, {hero} [loved|liked] to tell this story.
When {his} {parent} asked about the day, {hero} [only smiled|talked for a whole hour].
It was the best day [of {his} life|{he} could remember|of the whole year].
""",
    "together": """
After that, {hero} and {friend} played together every day.
{Hero} and {friend} laughed all the way home.
From then on, {hero} and {friend} always stuck together.
{Hero} and {friend} told the story again and again.
""",
}
