"""All programs of the zoo, by name."""

from tests.zoo.families import hugging_face, keras, language_models, libraries, lightning, science, tables, text, vision
from tests.zoo.program import Program

FAMILIES = (hugging_face, lightning, tables, keras, language_models, vision, libraries, science, text)
PROGRAMS: dict[str, Program] = {program.name: program for family in FAMILIES for program in family.PROGRAMS}
