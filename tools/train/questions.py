"""What people ask, made from forms and what they may be about.

A model that writes the user's turns itself (data.py) asks much alike, and a drafter that learnt from those answers alone
guesses answers to people's own questions worse. None of these is in demos/kinds.txt, where drafters are measured."""
import os
import random

FORMS = {
    "topic": [
        "What is {}?", "What is {}, and why does it matter?", "Explain {} in simple terms.", "Explain {} to a ten-year-old.",
        "How does {} work?", "How do you explain {} in one paragraph?", "Give me three facts about {}.",
        "Write a short summary of {}.", "What do most people get wrong about {}?", "Describe {} in two sentences.",
        "Explain what {} is, in three sentences.", "Tell me about {}.", "Why is {} important?", "What causes {}?",
        "Write a short article about {}.", "What is the history of {}?", "Name some examples of {}.", "I don't understand {}. Can you help me?",
        "What would happen without {}?", "Give an analogy for {}.", "What are the main ideas behind {}?",
        "Write five quiz questions about {}.", "What should a beginner know about {}?", "Summarize {} as a list.",
    ],
    "pair": [
        "What is the difference between {} and {}?", "Compare {} and {}.", "Which is better, {} or {}?",
        "What do {} and {} have in common?", "How are {} and {} related?", "Should I choose {} or {}? Give reasons.",
        "List the pros and cons of {} and {}.", "When should one use {} instead of {}?",
    ],
    "skill": [
        "How do I get better at {}?", "Give five tips for {}.", "Give me some advice on {}.", "I want to start {}. Where do I begin?",
        "What are common mistakes in {}?", "Make a weekly plan for {}.", "What do I need for {}?", "How can I find time for {}?",
        "List the steps of {}.", "What are the benefits of {}?", "How long does it take to get good at {}?",
        "Is {} hard?", "Write a checklist for {}.", "What are three good habits for {}?", "How can I make {} more fun?",
    ],
    "hero": [
        "Tell a short story about {}.", "Write a story about {} in five sentences.", "Write a poem about {}.",
        "Write the beginning of a novel about {}.", "Tell me a bedtime story about {}.", "Write a dialogue between {} and a stranger.",
        "Describe a day in the life of {}.", "Write a funny story about {}.", "Write a haiku about {}.",
        "Write a diary entry by {}.", "Invent a legend about {}.", "Write a letter from {} to a friend.",
    ],
    "letter": [
        "Write a polite email that {}.", "Write a short letter that {}.", "Write a message to a friend that {}.",
        "Write a formal letter that {}.", "Help me write a note that {}.", "Draft an email to my manager that {}.",
        "Write a text message that {}.", "Write a friendly reply that {}.",
    ],
    "why": ["Why {}?", "Can you tell me why {}?", "Explain why {}.", "Do you know why {}?", "Why is it that {}?",
            "In a few sentences, why {}?"],
    "list": ["List ten {}.", "Give me some ideas for {}.", "Name five {}.", "What are some good {}?", "Suggest {} for a family.",
             "Give me a list of {} with a short description of each.", "What are the three best {}, and why?"],
}
ABOUT = {
    "topic": [
        "photosynthesis", "inflation", "gravity", "a black hole", "machine learning", "a neural network", "the stock market", "democracy",
        "the water cycle", "evolution", "a vaccine", "the immune system", "the internet", "a database", "recursion", "encryption",
        "a compiler", "an operating system", "cache memory", "virtual memory", "a hash table", "cloud computing", "the French Revolution",
        "the Roman Empire", "the Industrial Revolution", "the Renaissance", "the Cold War", "World War II", "ancient Egypt",
        "the solar system", "plate tectonics", "a volcano", "an earthquake", "a rainbow", "lightning", "the tide", "the moon",
        "a solar eclipse", "climate change", "renewable energy", "a wind turbine", "a solar panel", "nuclear power", "electricity",
        "magnetism", "sound", "light", "the theory of relativity", "quantum mechanics", "entropy", "an atom", "DNA", "a virus",
        "the human heart", "the brain", "sleep", "memory", "stress", "a healthy diet", "protein", "caffeine", "sugar", "fermentation",
        "bread baking", "cheese making", "coffee", "tea", "chocolate", "jazz", "classical music", "the blues", "impressionism",
        "photography", "poetry", "Shakespeare", "a haiku", "philosophy", "stoicism", "ethics", "logic", "probability", "the Pythagorean theorem",
        "prime numbers", "calculus", "statistics", "geometry", "supply and demand", "compound interest", "a mortgage", "insurance",
        "taxes", "globalization", "marketing", "a startup", "teamwork", "leadership", "the United Nations", "human rights", "the Olympic Games",
        "football", "chess", "a refrigerator", "a microwave oven", "a car engine", "an airplane", "a submarine", "a bridge", "a telescope",
        "a clock", "the printing press", "the alphabet", "paper", "money", "glass", "steel", "a battery", "GPS", "the ocean", "a rainforest",
        "a desert", "bees", "whales", "dinosaurs", "migration of birds", "pollination", "an ecosystem", "recycling", "soil", "time zones",
    ],
    "pair": [
        ("a virus", "bacteria"), ("speed", "velocity"), ("mass", "weight"), ("a lake", "a pond"), ("coffee", "tea"), ("cats", "dogs"),
        ("RAM", "a hard disk"), ("a process", "a thread"), ("a compiler", "an interpreter"), ("a list", "a tuple in Python"),
        ("TCP", "UDP"), ("HTTP", "HTTPS"), ("a stack", "a queue"), ("renting", "buying a house"), ("a city", "a town"), ("jam", "jelly"),
        ("butter", "margarine"), ("a novel", "a short story"), ("a simile", "a metaphor"), ("astronomy", "astrology"), ("a comet", "an asteroid"),
        ("fruit", "vegetables"), ("a turtle", "a tortoise"), ("an alligator", "a crocodile"), ("fog", "mist"), ("a hurricane", "a tornado"),
        ("empathy", "sympathy"), ("a leader", "a manager"), ("revenue", "profit"), ("stocks", "bonds"), ("a debit card", "a credit card"),
        ("a train", "a bus"), ("running", "swimming"), ("yoga", "stretching"), ("a guitar", "a ukulele"), ("a piano", "a keyboard"),
        ("oil paint", "watercolour"), ("film", "theatre"), ("history", "myth"), ("a fact", "an opinion"), ("art", "craft"),
        ("Linux", "Windows"), ("Python", "C"), ("SQL", "a spreadsheet"), ("a laptop", "a tablet"), ("email", "a phone call"),
        ("remote work", "work in an office"), ("a king", "a president"), ("a law", "a rule"), ("a hypothesis", "a theory"),
    ],
    "skill": [
        "cooking at home", "public speaking", "saving money", "running a marathon", "writing well", "drawing", "playing the guitar",
        "learning to code", "studying for exams", "sleeping better", "gardening", "growing tomatoes", "baking bread", "making new friends",
        "taking good photographs", "reading more books", "managing time", "planning a trip", "packing a suitcase", "moving house",
        "cleaning the kitchen", "training a puppy", "caring for house plants", "meditation", "eating more vegetables", "losing weight",
        "job interviews", "writing a CV", "negotiating a salary", "working from home", "leading a meeting", "giving feedback", "teaching children",
        "swimming", "hiking in the mountains", "camping", "cycling to work", "painting a room", "fixing a leaking tap", "chess",
        "solving puzzles", "speaking with confidence", "keeping a diary", "remembering names", "learning the piano", "singing", "dancing",
        "public transport in a new city", "throwing a birthday party", "choosing a gift", "saving energy at home", "reducing waste",
    ],
    "hero": [
        "a dragon who is afraid of fire", "an old clockmaker", "a girl who finds a map", "a robot in a garden", "two brothers on a farm",
        "a cat that lives in a library", "a lonely astronaut", "a baker at midnight", "a fisherman and a talking fish", "a young queen",
        "a dog that gets lost in the city", "a wizard without magic", "the last tree in the forest", "a train driver in the snow", "a spy who retires",
        "a teacher on her first day", "a boy and his kite", "a detective in a small town", "a musician who loses her voice", "a gardener and the moon",
        "a ship captain", "a mouse and an elephant", "a painter who sees only grey", "a violin", "the sea in winter", "an empty house",
        "a soldier who comes home", "a secret door", "a grandmother and her recipes", "a bear who wants to be a poet", "autumn leaves",
        "a time traveller", "a shepherd in the mountains", "a river", "a bus stop in the rain", "the first day of spring", "a snowman",
        "a knight and a thief", "a nurse on the night shift", "a chess player", "an island nobody knows", "a letter that came too late",
    ],
    "letter": [
        "asks for a day off", "thanks a teacher", "invites the family to dinner", "declines an invitation", "apologizes for being late",
        "asks for a refund", "complains about a broken washing machine", "congratulates a colleague", "asks a landlord to repair the heating",
        "cancels a subscription", "asks for a recommendation", "introduces a new colleague", "reminds a customer of an unpaid bill",
        "asks for a meeting next week", "says goodbye to colleagues", "wishes a quick recovery", "asks for information about a course",
        "explains a delay in a project", "offers help with moving house", "asks a neighbor to water the plants", "confirms an appointment",
        "announces a school trip", "applies for a summer job", "asks about a lost bag", "proposes a new idea", "accepts a job offer",
    ],
    "why": [
        "the sea is salty", "leaves turn red in autumn", "cats purr", "we dream", "ice floats on water", "stars twinkle", "bread rises",
        "onions make us cry", "birds fly south", "the moon has phases", "we have seasons", "metal feels cold", "airplanes can fly",
        "people laugh", "prices rise", "exercise is good for us", "we need sleep", "the Roman Empire fell", "bees make honey", "dogs bark",
        "computers use binary", "programs have bugs", "a mirror reflects", "soap cleans", "iron rusts", "popcorn pops", "the sun shines",
        "old books smell", "music moves us", "we forget things", "children ask so many questions", "deserts are cold at night", "ships float",
        "plants need light", "some people are left-handed", "yawning is contagious", "glass is transparent", "rivers bend", "snow is white",
    ],
    "list": [
        "healthy breakfasts", "weekend activities", "books for young readers", "names for a cat", "gifts for a grandfather", "indoor games",
        "vegetarian dinners", "places to visit in Europe", "rainy day activities", "inventions that changed the world", "famous scientists",
        "songs for a road trip", "healthy snacks", "icebreaker questions", "science experiments", "museums", "hobbies", "cheap meals",
        "exercises without equipment", "animals that live in the sea", "team activities", "birthday party themes", "uses for old jars",
        "programming projects", "names for a coffee shop", "ways to relax", "topics for a speech", "board games", "spring flowers", "spices",
    ],
}
WEIGHTS = {"topic": 8, "pair": 3, "skill": 4, "hero": 4, "letter": 2, "why": 3, "list": 2}


def kept_away():
    path = os.path.join(os.path.dirname(__file__), "../../demos/kinds.txt")
    with open(path) as file:
        return set(file.read().split("\n"))


def questions(first, n):
    """The `first`-th and so on of a list of different questions that is always the same."""
    rng, found, away = random.Random(1), {}, kept_away()
    while len(found) < first + n:
        kind = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
        about = rng.choice(ABOUT[kind])
        question = rng.choice(FORMS[kind]).format(*(about if kind == "pair" else [about]))
        if question not in away:
            found[question] = True
    return list(found)[first:]
