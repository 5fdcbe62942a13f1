"""The plots of the sample corpus, each a story with its alternatives left open.

How to read them (the whole language is in `sample.py`): `[this|that]` is a choice, `{hero}` was
cast for this story, `<day>` is drawn afresh from a list, a capital (`{He}`, `<Day>`) asks for one,
`{a thing}` puts "a" or "an" in front, and a blank line starts a new paragraph.

The second item of each pair says who can be the hero: "any" (a child or an animal) or "child".
"""

from __future__ import annotations

LOST_THING = """
<opening> {Hero} had {a thing}, and {he} [took it everywhere|loved it more than anything else|played
with it every day|was very proud of it].

<Day>, the {thing.noun} was gone. [{Hero} felt very <sad>.|{His} eyes filled with tears.|{Hero}
could not believe it.] "[Where is my {thing.noun}|Oh no, where can it be|Who has seen my
{thing.noun}]?" {he} [cried|asked|called].

{He} looked {spot}. [It was not there.|Nothing!|There was only an old sock.|There was nothing but
dust.] {He} looked {spot2}. [No {thing.noun}!|It was not there either.|All {he} found was a spoon.]
[Then {he} looked {spot3}, but it was no use.|At last {he} sat down and sighed.|]

[Just then, {his} friend {friend} came by. "[What is wrong|Why do you look so sad], {hero}?" asked
{friend}. "I lost my {thing.noun}," said {hero}. "[Let us look for it together|I will help you|Four
eyes see more than two]," said {friend}. "Where did you play with it last?"

|{A helper} [heard {him} crying|was sitting nearby] and asked, "Why are you so <sad>, little
{kind}?" "I lost my {thing.noun}," said {hero}. "[Crying will not find it|Do not worry]," said the
{helper.kind}. "Close your eyes and think. Where did you see it last?"

|{His} {parent} [sat down beside {him}|took {his} hand]. "[Think back|Do not cry], {hero},"
{parent.he} said <kindly>. "Where did you have it last?"]

{Hero} thought [hard|for a long time|and thought]. "[I know|I remember now]! I was {place.at}!" {he}
said. {He} ran to {place} as fast as {he} could. [{Place.scene}. |]And there, {outspot}, [lay|was]
the {thing}!

[{Hero} [hugged it tightly|jumped for joy|held it close to {his} heart]. "I will never lose you
again," {he} [said|promised|whispered].|"Hooray!" {he} shouted. {He} was so <happy> that {he} danced
all the way home.] From that day on, {hero} always put the {thing.noun} [back in its place|in a safe
place|away before bed].
"""

LEARNING = """
<opening> More than anything, {he} wanted to [learn to |]{skill}.

<Day>, {hero} tried [for the first time|all alone|again and again], but {skill.fail}. ["This is too
hard," {he} said.|"I will never learn it," {he} groaned.|{He} felt <sad> and kicked a stone.]
[{Friend}, {a friend.kind} who lived nearby, laughed at {him}. That made it even worse.|Nobody saw
it, but {his} cheeks turned red.|]

[{A helper} had been watching. "I could not do it at first, either," said the {helper.kind}.
"[Practice a little every day|Go slowly and do not give up], and you will see."

|"May I tell you a secret?" asked {his} {parent}. "When I was little, I fell down 100 times. And do
you know what I did? I got up 101 times."

|Old {neighbor} looked over the fence. "[Everybody starts small|No one is born a master],"
{neighbor.he} said. "Come to me every [morning|evening], and I will show you how."]

So {hero} practiced. {He} practiced [on Monday, {he} practiced on Tuesday|on sunny days, {he}
practiced on rainy days|before breakfast, {he} practiced after supper], and {he} did not give up,
[even when {he} was tired of {skill.ing}|even when it went wrong|although {he} had bruises on both
knees]. [Each time it went a little better.|Some days were good and some days were bad.|Little by
little, it got easier.]

Then, <day>, it happened: {skill.success}! ["I did it! I did it!" shouted {hero}.|{Hero} laughed out
loud.|{Hero} could hardly believe it.] [{His} {parent} clapped {parent.his} hands.|"Can you teach
me, too?" asked a little neighbor. "Of course," said {hero}.|All the neighbors cheered.] [{Hero} had
learned that nothing comes without practice.|<night>|And {hero} knew that trying again was the best
trick of all.]
"""

NEW_FRIEND = """
<opening> But {hero} [was new in the village and had no friends|had nobody to play with|was a little
shy and often played alone], and that made {him} <sad>.

<Day>, {hero} took {his} {thing} and went to {place}. [{Place.scene}. |<aside> |]There {he} saw {a
friend.kind} [sitting all alone|who was drawing in the dust|with a long face]. {Hero} wanted to say
hello, but {he} was <scared>. [What if nobody answered?|{His} heart beat fast.|{He} hid behind a
tree and waited.|]

Then {he} took a deep breath. "Hello," said {hero}. "My name is {hero}. What is your name?" The
{friend.kind} [looked up and smiled|smiled shyly]. "I am {friend}," {friend.he} said. "[I have no
one to play with|I like your {thing.noun}|I was hoping that somebody would come]."

["Do you want to play with my {thing.noun}?" asked {hero}. "[Yes, please|Oh, yes]!" said
{friend}.|"Shall we play {game}?" asked {friend}. "[I would love to|Yes, let us]!" said {hero}.]
They {game.played}, and they laughed until their tummies hurt. [When they got hungry, {friend}
[opened {friend.his} bag and took out|shared] some {food}. [{Food.they} {food.was} delicious.|They
ate every crumb.]|]

When the sun went down, {friend} asked, "Will you come back tomorrow?" "[I will come every day|Of
course I will]," said {hero}. [From that day on, {hero} and {friend} were best friends.|And so
{hero} and {friend} became the best of friends.|<together>|{Hero} ran home and <toldto>. "You see,"
said {parent.call}, "a friend is only one hello away."]
"""

STORM = """
<opening>

<Day>, {hero} and {his} friend {friend} were playing {game} {place.at}. [{Place.scene}. But
then|Nobody noticed that] the sky [grew dark|turned gray|turned black]. [A cold wind began to
blow.|The birds stopped singing.|Big drops began to fall.] "[A storm is coming|Look at those
clouds|We should go home]!" said {friend}.

[Suddenly|Then] there was a flash of lightning. Boom! went the thunder. {Hero} was so
[scared|afraid|frightened] that {he} [shook like a leaf|could not move|covered {his} ears]. "[Take
my hand|Follow me|Do not be afraid]," said {friend}. "I know [an old barn|a dry cave|a little hut|a
hollow tree] where we can hide."

[They ran through the rain as fast as they could.|They ran and ran, and the wind pulled at them.]
Inside, it was [dark but dry|warm and quiet]. {A helper} was hiding there, too. "[There is room for
all of us|Come in, come in]," said the {helper.kind}. [To pass the time, they sang songs.|They
counted the seconds between the lightning and the thunder. "One, two, three, four, five," they
counted. "It is moving away!"|The {helper.kind} told them a story about a [king|whale|giant] who was
afraid of [mice|puddles|the dark], and soon they were all laughing.]

At last, the rain stopped. [A rainbow stretched across the sky.|The sun came out, and everything
sparkled.|Drops glittered on every leaf.] "[How <nice>|Look]!" said {hero}. "Without the storm, we
would never have seen it." [Then {his} {parent} came running and hugged them both.|They waved
goodbye to the {helper.kind} and splashed home through the puddles.] [{Hero} was not afraid of
thunder anymore.|From then on, whenever it thundered, {hero} counted and was brave.|<night>]
"""

QUARREL = """
{Hero} and {friend} were best friends. [They did everything together.|They lived next door to each
other.|Every day they met {place.at}.] {Hero} was {a trait} {kind}, and {friend} was {a trait2}
{friend.kind}.

<Day>, they found {a thing} {outspot}. "[I saw it first|It is mine]!" said {hero}. "[No, I saw it
first|No, it is mine]!" said {friend}. {Hero} pulled on one side, and {friend} pulled on the other.
[Splash! It fell into a puddle.|It flew through the air and landed in the mud.|They pulled so hard
that both of them fell down.]

"[Look what you did|This is your fault]!" [shouted|cried] {friend}. "[I do not want to play with you
anymore|You are not my friend anymore]!" [{Hero} stamped {his} foot and went home.|They both turned
around and walked away.]

At home, {hero} tried to play {game} alone, but it was no fun. {He} [ate some {food}, but
{food.they} {food.was} no good without {friend}|looked out of the window and sighed|felt <sad> all
day long]. "What is the matter?" asked {his} {parent}. {Hero} told {parent.him} [everything|what had
happened|about the quarrel]. "[{A thing.noun} is only a thing|There are many things in the world],"
said {parent.call}, "but there is only one {friend}."

So {hero} [ran|walked] to {friend}'s door. {Friend} was just coming out. "I am sorry," they both
said at the same time. Then they [laughed|had to laugh|hugged each other]. [They took turns with the
{thing.noun}: one day it was {hero}'s, and the next day it was {friend}'s.|They built a secret box
for the {thing.noun}, and both of them had a key.|They gave the {thing.noun} to a little neighbor
who had no toys at all.] [After that, {hero} and {friend} were closer than ever.|And they never
quarreled about a thing again.|Sharing was much more fun than fighting.]
"""

OLD_NEIGHBOR = """
<opening> Next door lived {neighbor}, who was very old [and walked with a stick|and lived all
alone|and had a long white braid|and could not see well].

<Day>, {hero} came to visit. {Neighbor} was trying to {task}, but {neighbor.his} [back hurt|hands
shook|knees were stiff]. "[Good morning|Hello]!" said {hero}. "May I help you?" "[That would be very
kind|What a nice surprise]," said {neighbor}. "[These old bones are tired|I am not as young as I
used to be]."

So {hero} {task.past}. [It was hard work, but {he} did not complain.|It took all morning.|{He}
whistled while {he} worked.] After that, {he} also {task2.past}. [{His} friend {friend} came by and
said, "Come and play!" "Not yet," said {hero}. "First I want to finish this."|<aside>|] When
everything was done, {neighbor} brought out <drink> and some {food}.

Then {neighbor} opened [an old chest|a dusty cupboard|a little drawer] and took out {a thing}. "I
[got this|had this] when I was {age} years old," said {neighbor}. "Now [it is yours|I want you to
have it]." ["Thank you! I will take good care of it," said {hero}.|{Hero} beamed.]

[From that day on, {hero} visited {neighbor} every [Saturday|week|day after lunch].|{Hero} came
again the next day, and the day after that.] [{Neighbor} told stories about the old days, and {hero}
listened with shining eyes.|And {neighbor} was never lonely again.|Helping, {hero} found, makes two
people happy at once.]
"""

BIRTHDAY = """
<opening> [Soon|The next day], {hero} would turn {age}. {He} wished for only one thing: {a thing}.

On the morning of {his} birthday, {hero} jumped out of bed. But nobody said "Happy birthday!" [{His}
{parent} was busy in the kitchen.|"Please {task}, {hero}," was all that {his} {parent} said.|{His}
{parent} went out and shut the door.] {His} friend {friend} walked by [and did not even wave|in a
hurry]. ["Did everybody forget?" {hero} wondered.|"They all forgot my birthday," {hero} thought.|]
{He} felt <sad> and went to {place} [all alone|by {himself}].

[{A helper} came along. "Why so <sad>?" asked the {helper.kind}. "Today is my birthday, but nobody
knows it," said {hero}. "[Hm|Well, well]," said the {helper.kind} with a wink. "Perhaps you should
go home and see."|{He} sat there for a long time and threw pebbles. Then {he} heard somebody call
{his} name. It was {friend}. "Come quickly!" {friend.he} said. "You have to see this!"]

When {hero} opened the door, it was [dark|very quiet]. Then the lights went on. "Surprise!"
everybody shouted. [[There were balloons and paper stars everywhere.|Colorful lanterns hung from the
ceiling.|There were ribbons on every chair.]|] On the table stood {a dish} with {age} candles.
{Hero} [took a deep breath and blew them all out|closed {his} eyes, made a wish, and blew].

Then {friend} gave {him} a box with a [red|blue|golden] ribbon. Inside was {a thing}! "[It is just
what I wished for!|How did you know?]" cried {hero}. [They ate {dish.noun} and played {game} until
bedtime.|They danced and sang and ate {food}.] ["I thought you had forgotten," said {hero}. "How
could we forget you?" said {his} {parent}.|<night>]
"""

RACE = """
<opening> Every [year|spring|summer], there was a big race [around the lake|over the hills|through
the village|across the fields], and {hero} wanted to [win it|take part]. [The prize was {a
thing}.|The winner would get {a thing}.]

{Friend} was the fastest {friend.kind} of all. "[You will never beat me|You are much too slow],
{hero}," {friend.he} [boasted|laughed]. {Hero} said nothing. {He} [ran up and down the hill every
morning|practiced every evening|drank {his} milk and went to bed early].

<Day>, the race began. "Ready, steady, go!" called {neighbor}. Everybody [ran|rushed off]. {Friend}
was in front, and {hero} was [close behind|third|last]. [Dust flew up.|The crowd cheered.|]

[But {friend} was so sure of winning that {friend.he} stopped to [eat some {food}|take a nap under a
tree|talk to {a helper}]. {Hero} did not stop. Step by step, {he} came closer. When {friend} looked
up, {hero} was already crossing the line. "{Hero} wins!" shouted {neighbor}. "How did you do that?"
asked {friend}. "I just kept going," said {hero}.

|Then {hero} heard a tiny voice. "Help! Help!" {A creature} had fallen into a ditch. {Hero} looked
at the finish line, and {he} looked at the {creature.kind}. Then {he} stopped and lifted the poor
thing out. {Friend} won the race, but the {creature.kind} told everyone what {hero} had done. "Speed
is good," said {neighbor}, "but a kind heart is better." And {hero} got a prize, too.

|Halfway, {friend} tripped over a root and hurt {friend.his} foot. "[Ouch|Oh no]!" cried {friend}.
{Hero} could have run on, but {he} turned back. "Lean on me," {he} said. Arm in arm they crossed the
line together. Everybody clapped, and {neighbor} gave the {thing.noun} to both of them.]

[{Hero} was <happy> and a little out of breath.|<together>|That evening, everyone ate {food} in the
moonlight.|<night>]
"""

SECRET_GARDEN = """
<opening>

<Day>, {hero} was digging [under the old wall|beside the gate|near the hedge] when {he} found a
[rusty|small brass|heavy iron] key. "What does it open?" {he} wondered. [{He} tried the
[cellar|front door|garden shed], but the key did not fit.|] [Then {a helper} said, "Look behind the
ivy."|Then a <bird> flew up, and {hero} saw something behind the ivy.] There was a [little green|low
wooden|hidden] door! {Hero} turned the key. Click! The door creaked open.

Behind it lay a garden that everyone had forgotten. [Weeds grew as high as {his} chin.|Thorns
covered the paths.|The fountain was dry, and the roses were wild.] "[Poor garden|You only need a
little love]," said {hero}. {He} ran to get {his} friend {friend}. "[Can you keep a secret?|I want
to show you something,|Come with me,]" {he} whispered.

Every day after that, the two of them worked in the garden. {Hero} pulled out the weeds, and
{friend} [swept the paths|cut back the thorns|watered the roses]. They planted {a plant} [by the
wall|next to the fountain|in the middle]. [When it rained, they sat under the apple tree and ate
{food}.|The work was hard, but they sang the whole time.|Their hands were brown with earth.]

[Weeks went by.|Spring turned into summer.] Then, one [morning|day|fine day], {hero} opened the door
and stood still. [Flowers bloomed everywhere.|The whole garden was in bloom.] There was even
{plant.bloom}. "[It is the most <nice> place in the world|We did this]," whispered {friend}. [They
invited everyone to come in, and {neighbor}, who had played there long ago, cried for joy.|They kept
the secret all summer, and then they showed it to {his} {parent}.|And the key? {Hero} still wears it
on a ribbon around {his} neck.]
"""

DARK = """
<opening> {Hero} was not afraid of [spiders|thunder|big dogs|high places], but {he} was afraid of
the dark.

Every night, when {his} {parent} blew out the candle, {hero} pulled the blanket over {his} head. One
night, {he} heard {noise}. [It came from the attic.|It came from under the stairs.|It was very
close.] ["Is it a monster?" {hero} whispered.|{Hero} was sure that it was a monster.|{His} heart
[beat like a drum|was pounding].]

"{Parent.call}!" {he} called. {His} {parent} came with a [lamp|candle|lantern]. "There is a
monster," said {hero}. "[Then let us go and say good evening to it,|Shall we look together?]" said
{parent.call} <kindly>. Hand in hand, they tiptoed through the dark. {Hero} held {his} breath. And
what did they find? It was only {noise.source}! {Hero} had to laugh.

"The dark only hides things," said {parent.call}. "It does not change them." [Then {parent.he}
opened the window. "Look up," {parent.he} said. "Without the dark, there would be no stars." {Hero}
looked up and counted {age} bright stars before {he} yawned.|Then they sat on the steps and watched
the fireflies. "They are like tiny lanterns," said {hero}. "And you can only see them when it is
dark."|Then {parent.he} gave {him} {a thing}. "Keep it under your pillow," {parent.he} said. "It
will remind you to be brave."]

That night, {hero} [did not pull the blanket over {his} head|slept without a light for the first
time|listened to the quiet and was not afraid]. ["Good night, dark," {he} said, and fell
asleep.|Snug and warm, {he} fell asleep.|And when {he} heard a noise, {he} only smiled.]
"""

BROKEN = """
<opening> In the house stood {a breakable}. It belonged to {his} {grandparent}, who [loved it very
much|had gotten it long ago|was very proud of it]. ["Please do not play near the {breakable.noun},"
{grandparent.call} always said.|]

One rainy [day|morning|afternoon], {hero} was inside, playing with {his} {thing}. [{He} ran and
jumped, and then it happened.|{He} hopped backward without looking.|{He} spun around and around
until {he} was dizzy.] {He} bumped into the {breakable.noun}, and {breakable.broke}! {Hero} [stood
very still|went pale|wanted to cry]. "[Oh no!|What have I done?]" {he} whispered.

[Quickly, {he} hid everything {spot}.|{He} covered it with a cloth and ran outside.] "Has anyone
seen my {breakable.noun}?" asked {grandparent.call} at dinner. ["Maybe the cat took it," said
{hero}. But {his} tummy hurt, and the soup tasted like sand.|{Hero} looked at {his} plate and did
not say a word.|{Hero} shook {his} head and turned red.] That night, {he} could not sleep.

In the morning, {hero} went to {his} {grandparent}. "[It was me|I have to tell you something]," {he}
said, and a tear rolled down {his} cheek. "I broke your {breakable.noun}[, and I did not tell the
truth|]. I am so sorry." {Grandparent.call} [pulled {him} close|took {his} hand]. "[I am sad about
the {breakable.noun}|Things can break], but I am [happy|glad|proud] that you told me," said
{grandparent.call}. "That was brave."

Together they {breakable.mend}. [It did not look new, but {grandparent.call} said that
{grandparent.he} liked it even better.|One could still see where it had been broken, and that was
all right.] [And {hero} felt as light as a feather.|{Hero} felt much better.|The truth can be hard
to say, but it always feels good afterward.|From that day on, {hero} always told the truth.|After
that, {he} only played with the {thing.noun} outside.]
"""

SHARING_FOOD = """
<opening>

<Day>, {his} {parent} packed a basket with some {food}. "[Have a nice picnic|This is for your
lunch]," said {parent.call}. {Hero} [skipped|walked|wandered] to {place}. [{Place.scene}. |<aside>
|]{He} was just about to eat when {a helper} came by. "I have not eaten since yesterday," said the
{helper.kind}. "[Take some of mine|Here, have some]," said {hero}.

Soon {a helper2} came along. "[Mmm, that smells good|My tummy is empty]," said the {helper2.kind}.
{Hero} shared again. [Then {his} friend {friend} came, and {friend.he} was hungry, too.|] When
everybody had eaten, [only a few crumbs were left for {hero}|there was almost nothing left in the
basket]. ["[Never mind|That is all right]," said {hero}. "[It was more fun to eat together|I like it
when everyone is happy]."|]

On the way home, [{hero} got lost in the fog|{hero} slipped and hurt {his} foot|it began to get
dark, and {hero} lost {his} way]. "[Help!|Is anybody there?]" {he} called in a small voice. [The
{helper.kind} heard {him}. "You shared with me," said the {helper.kind}, "and now I will help you."
The {helper.kind} went ahead and showed {him} the way, and the {helper2.kind} kept {him}
company.|The {helper2.kind} heard {him} and called the others. Together they brought {hero} home,
right to {his} own front door.]

{His} {parent} was waiting with <drink>. "[Was your lunch good|Did you eat everything]?" asked
{parent.call}. "[It was the best lunch ever|I only had crumbs]," said {hero}, "and [I made two new
friends|now I have two new friends]." [Kindness always finds its way back.|Whoever shares is never
alone.|<night>]
"""

SEED = """
<opening>

<Day>, {neighbor} gave {him} a [tiny|small|funny] brown seed. "[Plant it and be patient|There is
something <nice> asleep in here]," said {neighbor}. {Hero} [dug a hole by the fence|filled a pot
with earth|found a sunny place in the garden] and put the seed inside. {He} [watered it|gave it a
little water] and sat down to wait.

{He} waited all day, but nothing happened. "[Wake up, little seed!" {he} said.|When will you grow?"
{he} asked.] ["It is broken," {hero} told {his} {parent}. "Seeds are slow," said {parent.call}.
"They need water, sunshine, and time."|{His} friend {friend} laughed. "You are watching a pot of
mud," {friend.he} said. But {hero} did not give up.|{A helper} said, "I have seen many seeds. The
slow ones grow the tallest."] Every morning, {hero} watered the earth. [{He} sang to it.|{He} told
it stories.|{He} pulled out the weeds.] One week went by, and then another.

Then, one [rainy|misty|golden] morning, {he} saw {plant.sprout}. "[It is growing|Look, look]!" {he}
[shouted|cried]. [One night, a storm came, and {hero} ran out to cover the little plant with a
box.|A hungry snail came along, but {hero} carried it gently to the other side of the garden.|When
the days grew hot, {hero} held an umbrella over it.] [Day by day|Week by week], the plant grew
taller [than {his} knees|than the fence|than {hero} {himself}|and taller].

At the end of the summer, there it was: {plant.bloom}! "[You took good care of it|You see]," said
{neighbor}. "Good things take time." [{Hero} saved a handful of seeds for the next spring.|{Hero}
gave one seed of it to {his} friend {friend}.|And {hero} had grown a little, too.]
"""

JOURNEY = """
<opening>

<Day>, {parent.call} said, "{Grandparent.call} is not feeling well. Will you take {grandparent.him}
some {food}?" "[Yes, I will|Of course]!" said {hero}. {He} put on {his} hat, took the basket, and
set off. [It was a long way, [over the hill and through the woods|past the mill and across the
fields|around the lake and up the mountain].|]

First, {obstacle}. [{Hero} was <scared>, but only for a moment.|"What now?" thought {hero}.|]
{obstacle.passed} A little later, {obstacle2}. ["I will not turn back," said {hero}.|"Grandparents
are worth it," said {hero}.|] {obstacle2.passed}

[Halfway, {he} met {a helper} who [looked very tired|had lost the way|was sitting on a stone]. "May
I come with you?" asked the {helper.kind}. "Two are braver than one," said {hero}. So they went on
together and [told each other riddles|sang a walking song].|Halfway, {he} sat down to rest. The
{food} smelled so good! But {he} did not take even one bite. "[This basket|All of this] is for
{grandparent.call}," {he} told {himself}.]

At last, {he} saw a little [chimney with smoke|window with a light|garden gate].
"{Grandparent.call}! {Grandparent.call}!" {he} called. {Grandparent.call} was in bed under three
blankets. "[What a nice surprise|My dear {hero}]!" {grandparent.he} said. "You came all this way
alone?"

They ate the {food} together. ["I feel better already," said {grandparent.call}. "A visit is the
best medicine."|Before long, {grandparent.call} was laughing again.] [That night, {hero} slept in
the big soft bed and dreamed of the road.|And when {hero} left, {grandparent.call} gave {him} {a
thing} for being so brave.]
"""

LOST_BABY = """
<opening>

<Day>, {hero} was walking to {place} when {he} heard a little sound. "{Creature.cry},
{creature.cry}!" it went. {Outspot} sat {a creature}. [It was shaking.|It looked cold and
<scared>.|It was all alone.] ["Are you lost?" asked {hero}. "{Creature.cry}," said the
{creature.kind} [sadly|in a tiny voice].|]

{Hero} [wrapped it in {his} scarf|picked it up very gently|gave it a few crumbs of {food}]. "Do not
be afraid," {he} said. "I will find your mother." [{He} asked a [gardener|farmer|fisherman], but the
man only shook his head.|{He} asked <a bird>, but the bird flew off.] Then {he} asked {a helper}.
"[I have heard someone calling all morning|Somebody is looking for a little one]," said the
{helper.kind}. "Try {creature.home}."

[It was a long walk.|They had to go up a hill and down again.|{Hero} walked quickly, for the sun was
getting low.|] On the way, {he} [sang a song|told stories], and the {creature.kind} stopped shaking.
Finally, they reached {creature.home}.

There was the mother! [She had been looking everywhere.|She ran to meet them.] "{Creature.cry}!
{Creature.cry}!" cried the little {creature.kind}, and [the two of them cuddled up close|the mother
covered her little one with kisses]. "[Thank you, {hero},|How can I ever thank you, {hero}?]" said
the mother. [{Hero} waved and walked home alone, but {he} did not feel alone at all.|{Hero} was a
little sad to say goodbye, but mostly {he} was <happy>.] [Now, every morning, somebody calls outside
{his} window: "{Creature.cry}!"|When {he} got home, {he} hugged {his} {parent} for a very long
time.]
"""

COINS = """
<opening>

<Day>, {hero} saw {a thing} in the window of {neighbor}'s shop. It was <nice>! "How much does it
cost?" asked {hero}. "[Ten|Twelve|Nine|Fifteen] coins," said {neighbor}. But {hero} had only
[two|three] coins and a button.

"Then I will work for it," said {hero}. On Monday, {he} {task.past} for {parent.call} and got one
coin. On Wednesday, {he} {task2.past} and got two. On Saturday, {he} made [lemonade|apple
juice|little paper flowers] and sold it [at the gate|{place.at}]. [Clink, clink, clink, went the
coins in {his} jar.|{He} counted the coins every evening.|The jar grew heavy.]

At last, {he} had enough. {Hero} ran to the shop with the jar in {his} arms. But on the way, {he}
saw {his} friend {friend}, who was crying. "[Our roof is leaking|My [mother|father|grandmother] is
sick|Somebody stole our hen], and we have no money," {friend} said. {Hero} looked at the jar. [It
was not easy.|{He} thought of the {thing}.] Then {he} said, "Take this. You need it more than I do."

[{Hero} walked home slowly.|{He} tried not to look at the shop window.] The next morning, there was
a [box|parcel] on the doorstep. Inside was the {thing}! A note said: "[For a {kind} with a golden
heart|I saw what you did|Good deeds come back]. Your friend, {neighbor}." [{Hero} laughed and cried
at the same time.|And do you know who was the first to play with it? It was {friend}.|{Hero} ran to
show it to {friend}.]
"""

TWO_WISHES = """
<opening>

<Day>, {hero} was walking [by the sea|in the woods|along the river] when {he} found an old
[lamp|bottle|pot]. {He} rubbed off the mud, and out came [a fairy in a green dress|a tiny man with a
blue beard|a puff of silver smoke that could talk]. "[Thank you for setting me free|You woke me
up]!" said the voice. "You may have two wishes. Think well before you speak."

{Hero} did not think at all. "I wish for {wish}!" {he} cried. [Zing|Poof|Whoosh]! And the wish came
true. At first, it was wonderful. But soon {wish.trouble}. ["This is not what I wanted," said
{hero}.|{Hero} did not know what to do.|]

{His} friend {friend} came and [shook {friend.his} head|stared]. "[What a mess|Oh, {hero}]!"
{friend.he} said. "You have only one wish left. What do you really want?" This time, {hero} sat down
[on a stone|under a tree] and thought for a long, long time. [The birds waited. Even the wind
waited.|The sun moved across the sky.|]

"I know it now," {he} said. "I wish that everything was just as it was before. All I want is
{wish.undo}." [Zing|Poof|Whoosh]! [And everything was as before.|And the trouble was gone.] "[That
was a wise wish|You have learned something]," said the voice, and it was gone.

[{Hero} and {friend} shared some {food} and laughed about it all.|{Hero} looked at {his} small house
and thought that it was the best place in the world.|"The best things were here all along," said
{hero}.] <night>
"""

BAKING = """
<opening>

<Day>, {hero} wanted to bake {a dish} for {his} {grandparent}. {He} [put on an apron|washed {his}
hands|found the big bowl] and opened the cupboard. But there {ingredient.was} no {ingredient} left!
"[What shall I do now?|I cannot bake without {ingredient},]" said {hero}.

{He} knocked on {neighbor}'s door. "[Good morning|Excuse me]," {he} said. "Do you have
{ingredient.one} for me?" "[I do|Yes, I do]," said {neighbor}, "but I need some help. Could you
{task} first?" So {hero} {task.past}. Then {neighbor} gave {him} {ingredient.one}. [{He} ran home,
happy as a lark.|"Thank you!" called {hero}.|]

[But at home, there {ingredient2.was} no {ingredient2}, either. "I will give you {ingredient2.one},"
said {his} friend {friend}, "if I may lick the spoon."|{His} friend {friend} [was just coming
by|lived around the corner]. "May I help you?" asked {friend}. "If you do not eat all the dough,"
said {hero}.] Together they mixed and stirred. [Flour flew through the air like snow.|{Friend} got
dough on {friend.his} nose.|They spilled a little, but nobody minded.]

They put the {dish.noun} into the oven and waited. [One minute, ten minutes, thirty minutes!|Soon
the whole house smelled sweet.] The {dish.noun} was [a little crooked, but|a little burnt on one
side, but|golden and round, and] it looked <nice>.

{Grandparent.call} took a bite and closed {grandparent.his} eyes. "[This is the best {dish.noun} I
have ever had|Mmm, it tastes like sunshine]," {grandparent.he} said. "What is your secret?" {Hero}
looked at {friend} and {neighbor}, who had come, too. "[Good neighbors|A little help from
everyone]," {he} said. [And there was a piece for everybody.|They ate until not a crumb was left.]
"""

BOAT = """
<opening> {He} dreamed of [sailing to the island in the lake|seeing where the river goes|being a
captain].

<Day>, {hero} and {his} friend {friend} {vessel.made}. "Our {vessel} is ready!" said {hero}. "What
shall we call it?" "[The Sea Star|The Brave Duck|The Silver Fish|The Flying Frog]!" said {friend}.
They packed some {food}, a long rope, and a [woolly|warm|striped] blanket, and off they went.

At first, [the water was calm, and the sun was shining|a soft wind blew, and they sang sailor
songs|{friend} watched the fish, and {hero} steered]. [But then the wind grew stronger, and waves
splashed over the side. "We will tip over, {hero}!" cried {friend}. "Sit still and hold on," said
{hero}, and {he} paddled with both hands.|But then they bumped into a rock, and water came in. "We
are sinking, {hero}!" cried {friend}. {Hero} was <scared>, but {he} stayed calm. {He} stuffed the
blanket into the hole, and {friend} scooped out the water with a hat.|But then the current pulled
them faster and faster. "What do we do now, {hero}?" cried {friend}. {Hero} was <scared>, but {he}
threw the rope around a tree on the bank and pulled with all {his} might.]

[Just then, {a helper} saw them from the shore. "Paddle this way!" called the {helper.kind}. "The
water is shallow here!"|Luckily, old {neighbor} was fishing nearby and pulled them in with a long
pole.] [Wet and tired|Dripping from head to toe], they crawled onto the [sand|grass].

["[That was close|I will never forget this]," said {friend}.|] They made a small fire, dried their
[socks|coats], and ate the {food}, which {food.was} only a little wet. "[You were a good captain|You
were very brave]," said {friend}. "[You were a good crew|So were you]," said {hero}. [Next time,
they would take a bigger {vessel}, and somebody who could swim.|<together>|<night>]
"""

SNOW = """
<opening>

One winter morning, {hero} looked out of the window. Everything was white! "[It snowed|Snow, snow]!"
{he} shouted. {He} [pulled on {his} boots|put on a warm coat|wrapped a scarf around {his} neck] and
ran outside. [The snow crunched under {his} feet.|Snowflakes landed on {his} nose.|The world was
very quiet.]

{His} friend {friend} was already there. "Let us build [a snowman|the biggest snowman ever]," said
{friend}. They rolled [one big ball, one middle ball, and one small ball|three big balls of snow].
They gave the snowman [a carrot|a pine cone|a crooked stick] for a nose, [two buttons|two black
stones|two chestnuts] for eyes, and {a thing} to [hold|keep him company]. "[He looks so real|He
looks cold|He is smiling at us]," said {hero}.

[That night, {hero} could not sleep. {He} looked out, and the snowman [waved|took off his hat]!
"Come and play," said the snowman in a soft voice. They slid down the hill under the moon, and the
snowman told {him} about [the North Pole|polar bears|the land of ice]. In the morning, {hero}
thought that it had been a dream. But in the snow, there were two rows of footprints.

|Then the sun came out, and the snowman began to drip. "Oh no, he is melting!" cried {hero}. {He}
and {friend} [held an umbrella over him|pushed him into the shade of the barn|packed fresh snow
around him]. But day by day, he grew smaller. "Do not be sad," said {parent.call}. "He is only going
home to the clouds. Next winter, he will come back."

|Then a small <bird> came hopping by. It was cold and hungry. "We must help it," said {friend}. They
filled the snowman's hat with straw and made a warm little nest. {Hero} brought some crumbs of
{food}. All night long, the snowman stood guard. In the morning, the bird was well again, and it
thanked them with a song.]

Inside, there was [hot cocoa|warm milk|peppermint tea] for everyone. [{Hero} warmed {his} hands and
smiled.|"I love winter," said {hero}.] [<together>|<night>|And outside, the snow kept falling,
softly, softly.]
"""

NOISE = """
<opening>

<Day>, {hero} heard {noise}. It came from [the attic|behind the wall|the old shed|the cellar].
"[What can that be|Did you hear that]?" {he} asked {his} friend {friend}. "[Maybe it is a
ghost|Maybe it is a dragon|It could be a robber|A ghost… or a dragon]," whispered {friend}, and
{friend.his} eyes grew wide.

The two friends [were <scared>, but they were also curious|looked at each other and nodded]. {Hero}
took a [candle|broom|lantern], and {friend} took {a thing}. Step by step, they crept closer. [The
floor creaked.|A spider ran across the wall.|Something brushed against {his} ear.] There it was
again, {noise}! "[I want to go home|You go first]," whispered {friend}. "[We are detectives|We must
be brave]," {hero} whispered back. "Detectives do not run away."

[They looked {spot}. Nothing. They looked {spot2}. Nothing.|On the floor, {hero} found [3|4|5] tiny
footprints. "A clue!" {he} said.] Then {hero} [opened the last door|lifted an old blanket|held up
the light|— very, very slowly — pulled back the curtain]. "[Oh|Look]!" {he} cried. It was
{noise.source}!

{Friend} began to giggle, and {hero} laughed until {his} sides hurt. "[So that was our ghost|What a
terrible dragon]!" said {friend}. [They ran to get {parent.call}, who laughed, too.|They promised to
keep it a secret.|They wrote it down in their book of mysteries: "Case number {age} is closed."]
[After that, {hero} was not so quick to be afraid.|Most monsters, {hero} learned, are small when you
come close.|<together>]
"""

STAGE = """
<opening> {He} could {talent} better than anyone, but only when nobody was looking. [In front of
others, {he} was too shy.|As soon as somebody watched, {his} knees began to shake.]

<Day>, {neighbor} put up a sign {place.at}. It said: "Big show on Saturday! Everyone may take part."
"You should {talent.do}," said {his} friend {friend}. "[Oh no|Never]," said {hero}. "[What if they
laugh at me|What if I make a mistake]?" "[And what if you do not|And what if they love it]?" asked
{friend}.

On Saturday, {hero} stood behind the curtain. [{He} peeked out. There were [50|60|100] people!|]
{His} mouth was dry, and {his} hands were cold. ["I cannot do it," {he} whispered.|{He} wanted to
run away.] [{Friend} squeezed {his} hand. "Just look at me," {friend.he} said.|{His} {parent} winked
at {him}. "Take three deep breaths," {parent.he} said.|{A helper} sat on the [roof|beam] above. "The
brave are afraid, too," said the {helper.kind}. "They just do it anyway."]

{Hero} stepped into the light. [One breath. Two breaths. Three.|One breath… two breaths… three!]
Then {he} {talent.did}. [At first, it was very quiet.|] Then {he} forgot about the people, and it
was just like at home. When {he} was done, [nobody made a sound. Then everybody jumped up and
clapped|the clapping was as loud as thunder|the whole crowd cheered]. "Again! Again!" they called.

"[You see|I knew it]!" said {friend}. {Hero} [bowed and blushed|could not stop smiling]. [The prize
was {a thing}, but the best prize was something else: {he} was not afraid anymore.|From that day on,
{hero} was never too shy to {talent.do}.|<night>]
"""

STUCK = """
<opening> {His} favorite thing was {a thing} that {his} {grandparent} had given {him}.

<Day>, {hero} was playing {place.at}. [{Place.scene}. |<aside> |]Suddenly, [a gust of wind|a big
gray bird|a wild puppy] snatched the {thing.noun} away, and it landed [high up in a tree|on the roof
of a barn|on top of a tall rock]. "[Come down|Give it back]!" shouted {hero}, but it was stuck.

[{He} jumped, but it was too high. {He} threw a [stick|pine cone], but it missed.|{He} tried to
climb up, but {he} [slid back down|got scared halfway].] [{Hero} sat down and felt <sad>.|"I need
help," said {hero}.]

[First, {a helper} came by. "I can try," said the {helper.kind}, but it did not work. Then {a
helper2} came by and tried, too, but the {thing.noun} was still stuck.|{His} friend {friend} came
by. "I will lift you up," said {friend}, but they were still too short. Then {a helper2} came
along.] "[I have an idea|Wait — I have an idea|Wait]," said {hero}. "What if we all work together?"
[So they climbed on each other's backs, one by one, until they made a tall, wobbly tower.|So they
found a long ladder, and while the others held it, {hero} climbed up.|So they shook and pushed and
pulled, all at once: one, two, three!]

[Up, up, up, and there it was!|It wobbled, it slipped, and down it came!] {Hero} caught the
{thing.noun} in {his} arms. "Hooray!" everyone [cheered|cried]. "Alone, I could not do it," said
{hero}, "but together it was easy." [To say thank you, {he} shared some {food} with everybody.|Then
they all played {game} until dark.] [{Hero} never forgot that day.|<night>]
"""

HURT_BIRD = """
<opening>

<Day>, {hero} found a [little|small gray|young] <bird> {outspot}. One of its wings was hurt, and it
could not fly. "[You poor thing|Do not be afraid]," said {hero}. {He} [carried it home in {his}
hat|wrapped it in a soft cloth] and made a nest for it [in a shoebox|out of wool|beside the stove].

Every day, {hero} gave the bird [seeds and water|bread crumbs and worms|tiny bits of fruit]. {His}
friend {friend} brought [fresh moss|a bowl|soft feathers] for the nest. "What will you call it?"
asked {friend}. "[Sky|Feather|Little One|Sunny|Peep]," said {hero}. Slowly, the wing healed. [At
night, {he} sang to the bird until it slept.|The bird hopped across the table and stole {his}
{food}.|The bird sat on {his} shoulder when {he} had breakfast.] {Hero} wished that it would stay
forever.

But the bird began to look out of the window. [It looked at the sky all day.|Outside, the other
birds were singing.] "I think it wants to fly," said {parent.call} <kindly>. {Hero} felt a lump in
{his} throat. "[But it is my friend|I will miss it so much]," {he} said. ["A friend is not a toy
that you keep in a box," said {parent.call}.|]

So {hero} opened the window. The bird looked at {him}, [chirped once|tilted its head], and flew up,
up, up, until it was only a dot in the sky. {Hero} cried a little. [In the spring, {he} heard a song
outside. The bird was back, and it had brought its whole family!|But the next morning, a
[blue|white|brown] feather lay on the windowsill, like a thank-you letter.|And every time {he} heard
<a bird> sing, {he} smiled and waved.]
"""

MOON = """
<opening> Every night, {he} looked up at the moon. "[I want to touch it|I want to have it for my
own]," said {hero}.

[{His} {parent} smiled. "The moon is very far away," {parent.he} said.|"Nobody can reach the moon,"
said {his} friend {friend}.] But {hero} had a plan. First, {he} climbed [the tallest tree|the
highest hill|onto the roof] and stretched out {his} arms. The moon was still too far. [Then {he}
built a tower out of [chairs and boxes|12 old crates|barrels and baskets]. It [wobbled, and down
{he} fell into a pile of hay|went crash, and {hero} landed in a bush].|] Then {he} tried to catch
the moon with a [fishing net|long rope|butterfly net]. All {he} caught was {a helper}, who was not
amused.

["What are you doing?" asked the {helper.kind}. "I want to catch the moon," said {hero}.|The
{helper.kind} [chuckled|thought for a while].] "Come with me," said the {helper.kind}, and led {him}
to [the pond|a quiet lake|a big puddle]. There, in the still water, shone the moon, [round and
white|as bright as a coin|close enough to touch].

{Hero} knelt down and touched it with one finger. The moon [broke into 100 silver pieces|danced and
trembled], and then it was whole again. "[It tickles|It is cold]!" laughed {hero}. [{He} filled a
[tin|blue|little] cup with water and carried it home. The moon came along in the cup.|{He} sat there
for a long time, with the moon beside {him}.] "[You cannot own the moon|The moon belongs to no
one]," said the {helper.kind}, "but [it shines for everyone|you can always visit it]."

{Hero} went home and got into bed. Through the window, the moon was shining on {his} pillow. ["Good
night, moon," {he} said.|"So you came to visit me, too," {he} whispered.|And {he} fell asleep.]
"""

TALL_TALE = """
<opening> Most of all, {he} loved to [play tricks|make things up]. ["There is a wolf in the garden!"
{he} once called, and everybody ran. But there was no wolf.|"The barn is on fire!" {he} once
shouted, and everybody came with buckets. But there was no fire.] {Hero} laughed and laughed. But
{his} friend {friend} did not. "[That was not funny|Someday, nobody will believe you]," {friend.he}
said.

<Day>, {hero} was alone {place.at}. [{Place.scene}. |<aside> |]Then {he} saw that [the dam had a
hole, and the water was running out|a goat was stuck in the mud|a small child had climbed much too
high]. "Help! Help!" shouted {hero}. "Come quickly!" But [everybody thought that it was another
trick|nobody came|{neighbor} only said, "Not again," and shut the window].

{Hero} ran to {friend}. "Please believe me," {he} said. "This time it is true!" {Friend} looked into
{his} eyes and saw [a real tear|that {he} was not smiling]. "[All right|I believe you]," said
{friend}. Together they ran back with [a rope and a ladder|shovels and boards], and in the end,
everything was all right.

That evening, {hero} went from door to door. "I am sorry for my tricks," {he} said to everyone. "[I
will not do it again|From now on, you can believe me]." [{Neighbor} gave {him} some {food}. "It
takes courage to say that," said {neighbor}.|{His} {parent} nodded. "Trust is like {a thing}," said
{parent.call}. "It is easy to lose and hard to find."] And from then on, {hero} told [the truth, and
kept {his} stories for the campfire|only true things, except at bedtime].
"""

PLOTS = [
    (LOST_THING, "any"),
    (LEARNING, "any"),
    (NEW_FRIEND, "any"),
    (STORM, "any"),
    (QUARREL, "any"),
    (OLD_NEIGHBOR, "any"),
    (BIRTHDAY, "any"),
    (RACE, "any"),
    (SECRET_GARDEN, "any"),
    (DARK, "any"),
    (BROKEN, "any"),
    (SHARING_FOOD, "any"),
    (SEED, "any"),
    (JOURNEY, "any"),
    (LOST_BABY, "any"),
    (COINS, "child"),
    (TWO_WISHES, "any"),
    (BAKING, "any"),
    (BOAT, "any"),
    (SNOW, "any"),
    (NOISE, "any"),
    (STAGE, "any"),
    (STUCK, "any"),
    (HURT_BIRD, "child"),
    (MOON, "any"),
    (TALL_TALE, "any"),
]
