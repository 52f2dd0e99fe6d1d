"""Batches of vector samples with a route, of any content, for networks that need no log."""

import torch

NUM_ROUTE_POINTS = 26


def route_batch(num_samples, *, num_agents=4, num_lanes=3, num_lane_points=6, num_past=2, num_steps=5, generator):
    """The keys that the route planner takes, and the truth; what is not there holds numbers all the same."""

    def numbers(*shape, scale=1.0):
        return scale * torch.randn(num_samples, *shape, generator=generator)

    def flags(*shape, share=0.7):
        return torch.rand(num_samples, *shape, generator=generator) < share

    def whole(*shape, most):
        return torch.randint(0, most, (num_samples, *shape), generator=generator)

    agents, lanes, points = (num_agents,), (num_lanes,), (NUM_ROUTE_POINTS,)
    past = num_past + 1
    own_past = torch.stack((-torch.arange(past).float(), torch.zeros(past)), dim=-1)
    return {
        "extent": torch.tensor([4.9, 1.9, 1.5], dtype=torch.float64).expand(num_samples, 3),
        "history_positions": own_past * (0.1 + numbers(1, 1).abs()),
        "history_yaws": numbers(past, 1, scale=0.1),
        "history_availabilities": torch.ones(num_samples, past, dtype=torch.bool),
        "all_other_agents_history_positions": numbers(*agents, past, 2, scale=20.0),
        "all_other_agents_history_yaws": numbers(*agents, past, 1),
        "all_other_agents_history_extents": numbers(*agents, past, 2).abs() + 2.0,
        "all_other_agents_history_availability": flags(*agents, past),
        "all_other_agents_types": whole(*agents, most=17),
        "all_other_agents_route_places": numbers(*agents, 6),
        "all_other_agents_route_availability": flags(*agents),
        "lanes_mid": torch.cat(
            (numbers(*lanes, num_lane_points, 2, scale=20.0), whole(*lanes, num_lane_points, 1, most=5).float()), dim=-1
        ),
        "lanes_mid_availabilities": flags(*lanes, num_lane_points) & flags(*lanes, 1),
        "lane_limits": numbers(*lanes).abs() * 10.0,
        "lane_on_route": flags(*lanes),
        "route_polyline": numbers(*points, 3, scale=10.0),
        "route_availability": flags(*points),
        "route_limits": numbers(*points).abs() * 10.0,
        "route_bend_speeds": numbers(*points).abs() * 10.0,
        "route_lights": whole(*points, most=5),
        "route_in_junction": flags(*points),
        "route_widths": numbers(*points, 2).abs() * 2.0,
        "route_gaps": numbers(2).abs() * 20.0,
        "goal_position": numbers(2, scale=40.0),
        "goal_availability": flags(),
        "agent_route_place": numbers(6),
        "agent_route_availability": flags(),
        "target_positions": numbers(num_steps, 2, scale=5.0),
        "target_yaws": numbers(num_steps, 1, scale=0.3),
        "target_availabilities": flags(num_steps),
    }
