"""A model that drops a field goes on publishing."""

from dataclasses import dataclass

from deltaic.consumer.consumer import Consumer
from deltaic.producer.producer import Producer
from deltaic.schema.annotations import key, type_name


@key("id")
@dataclass
class Film:
    id: int
    title: str
    rating: float


@key("id")
@type_name("Film")
@dataclass
class LaterFilm:
    id: int
    title: str


def test_records_change_after_their_model_lost_a_field(tmp_path):
    with Producer(str(tmp_path), Film) as producer:
        producer.publish([Film(1, "Solaris", 8.0), Film(2, "Stalker", 9.0)])
        first = producer.version
    consumer = Consumer(str(tmp_path), cache_dir=False, schema_append="off")
    follower = Consumer(str(tmp_path), cache_dir=False)
    for each in (consumer, follower):
        each.refresh()
    with Producer(str(tmp_path), LaterFilm) as producer:
        producer.publish([LaterFilm(1, "Solaris"), LaterFilm(2, "Stalker (1979)"), LaterFilm(3, "Mirror")])
    consumer.refresh()
    assert {film.id: (film.title, film.rating) for film in consumer["Film"].values()} == {
        1: ("Solaris", 8.0),
        2: ("Stalker (1979)", None),
        3: ("Mirror", None),
    }
    follower.refresh()
    assert [field.name for field in follower.state.types["Film"].schema.fields] == ["id", "title"]
    consumer.refresh(to=first)
    # What a dropped field held does not come back by reverse deltas; what stayed the same keeps it.
    assert {film.id: (film.title, film.rating) for film in consumer["Film"].values()} == {
        1: ("Solaris", 8.0),
        2: ("Stalker", None),
    }
